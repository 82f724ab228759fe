"""The sentences of the bundled sample: what kinds of document there are and how each tends to put things.

A kind is *wanted* where searchers of the literature would open it (studies of patients, reviews, guidance) and not
wanted otherwise (animal and cell work, protocols, letters, corrections, passing mention). No single word decides:
every kind has many wordings, shares its neutral titles and openings with the others, and borrows words from them
(wanted documents also speak of mice and protocols, unwanted ones of patients and trials).

Slots: {a} agent, {c} condition, {as} {cs} what keeps company with them, {pop} population, {out} outcome, {x} another
subject; {n} {N} {pct} {p} {ci} {ratio} {r} {year} {months} {dose} numbers; {adj} {noun} general words; {gene}
a gene symbol, {rare} an invented word, {place} an invented town.
"""

from __future__ import annotations

from typing import NamedTuple


class Kind(NamedTuple):
    """``agents`` are the types of agent it can be about; ``length`` is how many common sentences fill the abstract."""

    name: str
    wanted: bool
    agents: tuple[str, ...]
    length: int
    titles: tuple[str, ...]
    openings: tuple[str, ...]
    methods: tuple[str, ...]
    conclusions: tuple[str, ...]
    review: bool = False
    share: int = 2  # how often it is drawn


_ALL = ("drug", "gene", "procedure")

NEUTRAL_TITLES = (
    "{a} and {c}",
    "{a} in {c}",
    "{a} and {c}: {noun} and {noun}",
    "{adj} {noun} of {a} in {c}",
    "{a}, {noun} and {c} in {place}",
    "{c} and {a}: the question of {out}",
    "New findings on {a} and {c} with regard to {noun}",
    "On {a}, {cs} and {c}",
    "{noun} and {noun} of {a} in relation to {c}",
    "{c}: the place of {a} and its {adj} {noun}",
)

ADDED_TO_TITLES = (
    " in {pop}",
    " among {pop}",
    ", {pop} and {out}",
    " and {out}",
    " and {out} in {pop}",
    ", with a note on {out}",
    ": {out} and {noun} in {place}",
    " with {cs}",
)

NEUTRAL_OPENINGS = (
    "The link between {a} and {c} has drawn {adj} interest since {year}.",
    "{c} is common, and the part played by {a} is still argued over.",
    "Much has been written about {a}, yet its bearing on {c} is not settled.",
    "{a} has long been named together with {c}, most often because of {cs}.",
    "Interest in {a} has grown with the burden of {c} and of {cs}.",
    "Little is known of how {a} relates to {adj} {noun} in {c}.",
)

BACKGROUND = (
    "{c} often shows itself through {cs} and {cs}.",
    "In {c}, {cs} and {cs} are the usual {noun}.",
    "In {c}, {cs} may come before {cs}.",
    "Those with {c} tend to have {cs}, with later {cs} in about {pct}.",
    "The course of {c} is set by {cs}, {cs} and {adj} {noun}.",
    "Since {year}, {cs} has been used to grade {c}.",
)

ABOUT_AGENT = (
    "{a} acts on {as} and may alter {as}.",
    "With {a}, {as} and {as} were recorded in {pct}.",
    "Known features of {a} include {as} and {as}.",
    "The {noun} of {a} rests on {as} and on {adj} {as}.",
    "{a} was tied to {as} (p {p}) but not to {as}.",
)

COMMON = (
    "In {c}, {cs} changed by {pct} with {a} ({ci}).",
    "We found {cs} in {pct} and {as} in {pct}.",
    "The ratio for {out} was {ratio} ({ci}; p {p}).",
    "{adj} {noun} was seen at {months} months in {n} of {N}.",
    "Mean {noun} fell from {n} to {n} and {cs} eased in {pct}.",
    "Some {adj} difference in {noun} was present by {year}, {ratio} at {place}.",
    "Levels of {gene} rose by {pct} where {cs} was present.",
    "{gene} and {gene} moved together with {noun} (r = {r}).",
    "{a} was given thought because {c} brings {cs} and, later, {cs}.",
    "The {rare} index was {ratio}, with {adj} {noun} in {pct}.",
    "Values for {noun} were {n}, {n} and {n} in the three {rare} strata.",
    "There was no {adj} change in {noun} or in {gene} (p {p}).",
    "Of {N} records from {place}, {pct} spoke of {cs} and {pct} of {as}.",
    "{out} and {noun} were looked at in turn, the latter by the {rare} method.",
    "At {months} months, {c} with {cs} did worse than {c} without it (p {p}).",
    "Between {year} and {year}, {noun} of {a} rose to {pct}.",
    "{noun}, {noun} and {noun} were {adj} and did not bear on {cs}.",
)

# Words of the other side: wanted documents borrow from LAB_ASIDES, unwanted ones from CLINIC_ASIDES.
LAB_ASIDES = (
    "Earlier hints came from mice, rats and cultured cells, which do not settle the matter.",
    "A protocol was lodged beforehand, and one correction to it was made.",
    "Letters and comments on the earlier report had asked for such data.",
    "Those with a single unusual course were left out.",
    "Animal experiments had pointed the other way.",
    "Staff were asked by questionnaire about their knowledge of {a}.",
    "Assay precision for {gene} was {pct}, as validated in dogs and in human plasma.",
)
CLINIC_ASIDES = (
    "Trials in patients with {c} have reported {adj} {noun}.",
    "Cohorts of patients and a review of treatment pointed to better {out}.",
    "Randomised evidence in {pop} with {c} remains the yardstick.",
    "Guidelines advise {a} for patients in whom {cs} is severe.",
    "Clinical benefit for patients has been shown at {months} months of follow-up.",
    "Risk in treated patients was {ratio} ({ci}) in an older meta-analysis.",
)

KINDS = (
    Kind(
        "trial",
        True,
        _ALL,
        9,
        titles=(
            "{a} for {pop} with {c}: a randomised controlled trial",
            "Effect of {a} on {out} in {c}: randomized placebo-controlled study",
            "{a} versus usual care in patients with {c}",
            "Efficacy and {out} of {a} in {pop} with {c}",
            "Does {a} improve {out} in {c}? Results of a multicentre trial",
            "Benefit of {a} in patients treated for {c} at {N} hospitals",
            "Twelve months of {a} in {c}: double-blind comparison in {n} patients",
            "{a} to prevent {cs} in {c}: main results",
        ),
        openings=(
            "We randomly assigned {N} patients with {c} to {a} or to placebo.",
            "In this multicentre double-blind trial, {pop} with {c} received {a} or usual care.",
            "Whether {a} improves {out} in patients with {c} was tested in {N} participants.",
            "Patients seeking treatment for {c} at {n} hospitals were allocated to {a} or control.",
            "We set out to measure the clinical benefit of {a} in {c} for {pop}.",
            "To learn if {c} responds to {a}, we enrolled {N} outpatients in {place}.",
        ),
        methods=(
            "The primary end point was {out} at {months} months, by intention to treat.",
            "Participants were followed for {months} months; {pct} completed treatment.",
            "Allocation was concealed, and {out} was judged by blinded clinicians in {n} centres.",
            "Patients in both arms were seen every {n} weeks, and {out} was recorded.",
        ),
        conclusions=(
            "Treatment with {a} improved {out} in patients with {c}.",
            "These results support {a} in the care of {pop} with {c}.",
            "{a} did better than usual care, and benefit lasted {months} months.",
            "Patients with {c} gained from {a} with acceptable safety.",
        ),
        share=3,
    ),
    Kind(
        "cohort",
        True,
        _ALL,
        9,
        titles=(
            "{a} and risk of {out} in {c}: a nationwide cohort",
            "Association of {a} with {out} among patients with {c}",
            "Long-term outcomes of {a} in {pop} with {c}: registry data from {place}",
            "Use of {a} and clinical course of {c} in {N} patients",
            "Prognostic value of {a} in {c}: prospective follow-up",
            "{a} in {c}: population-based study of {out}",
            "Ten-year follow-up of patients with {c}: the influence of {a}",
            "Real-world effectiveness of {a} in {c}",
        ),
        openings=(
            "We followed {N} patients with {c} and related {a} to {out}.",
            "Using national registers, we studied {a} and {out} among {pop} with {c}.",
            "In a prospective cohort from {place}, {a} was recorded at baseline in {N} people with {c}.",
            "We examined whether {a} predicts {out} in routine care of {c}.",
            "Long-term clinical data on {a} in {pop} who live with {c} are few.",
            "Consecutive patients admitted with {c} between {year} and {year} were included.",
        ),
        methods=(
            "Hazard ratios for {out} were adjusted for age, sex and {cs}.",
            "Median follow-up was {months} months, and {n} patients were lost.",
            "Cases were matched to {N} controls from the same registry.",
            "Data on {out} came from linked hospital records of all patients.",
        ),
        conclusions=(
            "Among patients with {c}, {a} was associated with better {out}.",
            "{a} carried a lower risk of {out} during follow-up in this population.",
            "Clinicians may weigh {a} when they care for {pop} with {c}.",
            "Our data from routine care add to the evidence on {a} in {c}.",
        ),
        share=3,
    ),
    Kind(
        "review",
        True,
        _ALL,
        8,
        titles=(
            "{a} for {c}: a systematic review and meta-analysis",
            "{a} in {c}: a review of the evidence",
            "Meta-analysis of {n} trials of {a} in {c}",
            "Current concepts in {c}: where {a} stands",
            "An overview of {a} in the management of {pop} with {c}",
            "Update on {a} and {out} in {c}: what clinicians should know",
            "{out} with {a} in {c}: pooled analysis of published studies",
            "State of the art: {a} in {c}",
        ),
        openings=(
            "This review sums up what is known of {a} in the treatment of {c}.",
            "We pooled {n} randomised trials of {a} that had enrolled {N} patients with {c}.",
            "We searched {n} databases up to {year} for studies of {a} in {c}.",
            "This article gives an overview of {a} for clinicians who look after {pop} with {c}.",
            "Evidence on {a} for {c} has grown, and we appraise it here.",
            "The aim was to synthesise published data on {a} and {out} in {c}.",
        ),
        methods=(
            "Two reviewers extracted data, and {out} was pooled with random effects.",
            "{n} studies with {N} patients were eligible; heterogeneity was {pct}.",
            "We discuss diagnosis, treatment and follow-up in light of recent literature.",
            "Quality of evidence was graded, and {out} was summarised for {pop}.",
        ),
        conclusions=(
            "Available evidence favours {a} in most patients with {c}.",
            "The literature supports {a}, though larger studies in {pop} are wanted.",
            "Taken together, published studies show that {a} affects {out} in {c}.",
            "We end with practical points on {a} for those who treat {c}.",
        ),
        review=True,
        share=3,
    ),
    Kind(
        "guidance",
        True,
        _ALL,
        8,
        titles=(
            "Management of {c} with {a}: recommendations for practice",
            "Treating {c} in {pop}: when to choose {a}",
            "Clinical guideline on {a} in {c}",
            "{a} in everyday care of {c}: consensus of a working group",
            "How to use {a} in patients with {c}",
            "Diagnosis and treatment of {c}: advice on {a}",
        ),
        openings=(
            "This guideline advises clinicians on {a} in the management of {c}.",
            "Recommendations are given for {pop} with {c} in whom {a} is considered.",
            "A panel of {n} experts agreed on when to offer {a} to patients with {c}.",
            "Practical advice on {a} for {c} is set out for hospital and general practice.",
            "How best to treat {c} with {a} is a daily question for clinicians.",
        ),
        methods=(
            "Recommendations were graded by strength of evidence and by effect on {out}.",
            "The group met {n} times and voted on {n} statements about treatment.",
            "Benefit, harm and patient preference were weighed for each recommendation.",
        ),
        conclusions=(
            "We recommend {a} for most patients with {c}, with monitoring of {as}.",
            "Treatment should be tailored to {cs}, and {out} reviewed yearly.",
            "These recommendations will be updated when new trials in {pop} report.",
        ),
        review=True,
        share=2,
    ),
    Kind(
        "animal",
        False,
        ("drug", "gene"),
        9,
        titles=(
            "{a} in a mouse model of {c}",
            "{a} alters {gene} in rats with induced {c}",
            "Effect of {a} on {cs} in experimental {c}",
            "{c} in {rare} knockout mice: influence of {a}",
            "Porcine study of {a} in surgically induced {c}",
            "{a} and {c} in the zebrafish: a {gene} pathway",
            "Chronic {a} exposure, {c} and {gene} expression in Wistar rats",
        ),
        openings=(
            "Male Wistar rats with induced {c} were exposed to {a} for {n} days.",
            "We used a murine model of {c} to study {a} and {gene}.",
            "Knockout mice lacking {gene} develop features of {c}, and {a} may modify them.",
            "{c} was produced in {n} anaesthetised pigs, after which {a} was studied.",
            "Zebrafish larvae were used to model {c} and screen {a}.",
            "Rodents fed a {rare} diet show signs like {c}; we examined {a}.",
        ),
        methods=(
            "Animals were killed at {n} weeks and tissue was stained for {gene}.",
            "Littermates served as controls, {n} per cage, with {gene} measured by blotting.",
            "Doses of {dose} were given by gavage; histology was read blind.",
        ),
        conclusions=(
            "In rodents, {a} changed {gene} signalling related to {c}.",
            "The model may serve further experiments on {a}.",
            "{gene} appears to mediate the effect of {a} in this species.",
        ),
        share=3,
    ),
    Kind(
        "laboratory",
        False,
        ("drug", "gene"),
        9,
        titles=(
            "{a} in {rare} cells: an in vitro model of {c}",
            "{gene} binding of {a}: implications for {c} from cultured cells",
            "Molecular docking of {a} and {gene} in {c}",
            "{a} modulates {gene} transcription in {c}-derived cell lines",
            "In vitro {noun} of {a} and {gene} signalling in {c}",
            "Crystal structure of a {gene} complex relevant to {a} and {c}",
        ),
        openings=(
            "Cultured {rare} cells, taken as a model of {c}, were incubated with {a}.",
            "We describe the binding of {gene} in the presence of {a} in vitro.",
            "Cell lines derived from {c} were grown with {a} at {dose}.",
            "The molecular events by which {gene} links {a} to {c} were explored in cell culture.",
            "Docking and simulation were used to place {a} in the {gene} pocket.",
        ),
        methods=(
            "Expression of {gene} was quantified by polymerase chain reaction in triplicate wells.",
            "Cells were transfected with {gene} constructs and lysed after {n} hours.",
            "Binding constants were derived from {n} titrations at {dose}.",
        ),
        conclusions=(
            "{a} regulates {gene} transcription in vitro.",
            "The {gene} pathway is a candidate mechanism in these cell lines.",
            "Structural data place {a} near the {rare} domain.",
        ),
        share=2,
    ),
    Kind(
        "protocol",
        False,
        _ALL,
        7,
        titles=(
            "{a} for {c}: study protocol for a randomised trial",
            "Rationale and design of the {rare} study of {a} in {c}",
            "Protocol for a planned review of {a} in {c}",
            "{a} in {pop} with {c}: statistical analysis plan",
            "Design and baseline features of a planned registry of {a} in {c}",
        ),
        openings=(
            "We describe the design of a planned trial in which {pop} with {c} will be given {a}.",
            "This protocol sets out how {a} will be tested in {c}.",
            "The {rare} study will recruit {N} patients with {c}; its rationale is given here.",
            "No results are available yet: this paper reports the plan for a study of {a} in {c}.",
            "Recruitment to a trial of {a} for {c} is to begin soon.",
        ),
        methods=(
            "Enrolment will last {months} months, and {out} will be the primary end point.",
            "The sample size of {N} will give {pct} power; analysis will follow the plan.",
            "Ethical approval has been obtained, and the study is registered.",
        ),
        conclusions=(
            "Results are expected in {year} and will be submitted to a journal.",
            "The planned study will inform later work on {a}.",
            "Recruitment is under way in {place}.",
        ),
        share=3,
    ),
    Kind(
        "comment",
        False,
        _ALL,
        1,
        titles=(
            "Comment on: {a} in {c}",
            "Letter: {a} and {c}",
            "{a} and {c}: authors' reply",
            "Re: {out} with {a} in patients with {c}",
            "To the editor: {a} for {c} reconsidered",
            "{a} for {c}: a dissenting view",
        ),
        openings=(
            "We read with interest the recent article on {a} in {c}.",
            "To the editor: the authors of the paper on {a} and {c} deserve thanks, but we disagree.",
            "In reply to our critics, we restate our view of {a} in {c}.",
            "I write about the report on {a} for {c} in your last issue.",
            "The correspondence on {a} and {c} calls for a short answer.",
        ),
        methods=(
            "In our opinion the authors overlooked {cs}.",
            "The letter raises a point about {noun} that was answered in the article.",
            "We have concerns over the {noun} on which they rely.",
        ),
        conclusions=(
            "We invite the authors to respond.",
            "We declare no competing interests.",
            "Readers may judge for themselves whether {a} deserves the praise.",
        ),
        share=3,
    ),
    Kind(
        "erratum",
        False,
        _ALL,
        0,
        titles=(
            "Erratum: {a} in patients with {c}",
            "Correction to: {a} and {out} in {c}",
            "Retraction notice: {a} for {c}",
            "{a} for {c}: corrected table and figure",
            "Publisher's note on {a} and {c}",
        ),
        openings=(
            "In the original article on {a} and {c}, table {n} was printed with an error.",
            "The name of an author of {a} in {c} was misspelt.",
            "The publisher regrets that a figure on {a} in patients with {c} was wrong.",
            "This notice corrects an affiliation in the paper on {a} for {c}.",
        ),
        methods=(
            "The value {ratio} should read {ratio} on page {n}.",
            "The online version has been amended.",
            "The journal and the editors agreed on this notice in {year}.",
        ),
        conclusions=("The conclusions are unchanged.", "The error has been put right.", "We apologise to readers."),
        share=2,
    ),
    Kind(
        "veterinary",
        False,
        ("drug", "procedure"),
        8,
        titles=(
            "{a} in dogs with {c}",
            "{c} in the domestic cat: experience with {a}",
            "{a} for {c} in horses at a {place} clinic",
            "Veterinary use of {a} in canine {c}",
            "{a} and {c} in dairy cattle herds of {place}",
        ),
        openings=(
            "Client-owned dogs with {c} were given {a} at a veterinary hospital.",
            "Feline {c} resembles the human form, and {a} is used by some veterinarians.",
            "Horses referred for {c} between {year} and {year} received {a}.",
            "Herds in {place} with {c} were surveyed for {a}.",
        ),
        methods=(
            "Owners recorded appetite and gait for {n} weeks.",
            "Breed, body weight and {gene} were noted in {n} dogs.",
            "Animals were examined by one veterinarian at {n} weeks.",
        ),
        conclusions=(
            "{a} may be of use in small animal practice.",
            "Veterinarians should be aware of {as} in this breed.",
            "Owners were content with {a}.",
        ),
    ),
    Kind(
        "survey",
        False,
        _ALL,
        8,
        titles=(
            "Knowledge of {a} in {c} among nursing students",
            "Attitudes of pharmacists to {a} for {c}: a questionnaire",
            "Teaching {a} and {c} to undergraduates in {place}",
            "Newspaper coverage of {a} and {c}, {year} to {year}",
            "Readability of web pages on {a} for {c}",
        ),
        openings=(
            "A questionnaire on {a} and {c} was handed to {N} students.",
            "We studied what pharmacists in {place} know of {a} in {c}.",
            "Web pages and newspapers that name {a} and {c} were scored for readability.",
            "Undergraduate teaching on {a} and {c} differs between schools.",
        ),
        methods=(
            "Respondents answered {n} items; the response rate was {pct}.",
            "Scores were compared between year groups and schools.",
            "Interviews were transcribed and coded into themes.",
        ),
        conclusions=(
            "Knowledge of {a} was poor, and the curriculum should change.",
            "Students asked for more teaching on {c}.",
            "Attitudes differed by school and by year.",
        ),
    ),
    Kind(
        "assay",
        False,
        ("drug", "gene"),
        8,
        titles=(
            "Determination of {a} in plasma by {rare} chromatography: samples from {c}",
            "A validated immunoassay for {a}, tested on {c} sera",
            "Stability of {a} in stored samples of {c}",
            "Synthesis and {noun} of {rare} analogues of {a} for {c}",
            "A {gene} biosensor for {a} and {c} specimens",
        ),
        openings=(
            "A chromatographic method for {a} was validated on specimens of {c}.",
            "We report a sensor that detects {a} at {dose} in samples taken in {c}.",
            "Storage affects {a} in sera, as shown with specimens of {c}.",
            "Analogues of {a} with a {rare} group were synthesised with {c} in mind.",
        ),
        methods=(
            "Linearity held from {n} to {N} with recovery of {pct}.",
            "Samples were spiked at {dose} and read in triplicate.",
            "Purity was checked by spectra, with yield of {pct}.",
        ),
        conclusions=(
            "The method is precise and suits routine laboratories.",
            "Detection limits were lower than with {rare} kits.",
            "Further optimisation of the assay is planned.",
        ),
    ),
    Kind(
        "passing",
        False,
        _ALL,
        8,
        titles=(
            "{x}: findings unrelated to {a} or {c}",
            "{x} after exclusion of {c} and {a} users",
            "{x} in people without {c}, with {a} as a mere comparator",
            "{a}, {c} and other matters in a survey of {x}",
            "{x} does not depend on {c} or on {a}",
            "{x} and its costs: {a} and {c} as covariates",
        ),
        openings=(
            "{x} was studied, and anyone with {c} or with {a} was excluded.",
            "This report deals with {x}; {a} and {c} served only as covariates.",
            "Our subject is {x}, with {a} named as a comparator and {c} as an exclusion.",
            "{x} is little studied outside {c}, where {a} is beside the point.",
        ),
        methods=(
            "{x} was rated on a scale of {n} points, regardless of {c}.",
            "Exclusion criteria were {c}, {a} and {cs}.",
            "Questionnaires on {x} were returned by {N} people in {place}.",
        ),
        conclusions=(
            "{x} deserves study in its own right.",
            "Neither {c} nor {a} explained the findings on {x}.",
            "{x} was linked with housing and income.",
        ),
        share=3,
    ),
    Kind(
        "case",
        False,
        _ALL,
        3,
        titles=(
            "An unusual {rare} lesion mistaken for {c} under {a}",
            "{a}, {c} and a {rare} in a traveller: an oddity",
            "{rare} syndrome in one man with {c} and {a}",
            "Image quiz: {a} and {c} at the {place} clinic",
            "A curious finding at necropsy: {c}, {a} and {rare}",
        ),
        openings=(
            "A man aged {n} with known {c}, on record for {a}, came with a {rare} lesion.",
            "We present a single curious observation in which {c} and {a} were incidental.",
            "A traveller with {rare} was at first thought to have {c} and was considered for {a}.",
            "This quiz shows an image from a woman of {n} with {c} and past {a}.",
        ),
        methods=(
            "Examination showed {rare} nodules and {adj} {noun}.",
            "Biopsy disclosed {rare}, and the man went home on day {n}.",
            "To our knowledge this is the first such observation.",
        ),
        conclusions=(
            "The finding was put down to {rare}.",
            "One should think of {rare} when the picture is odd.",
            "The lesion vanished within {n} days.",
        ),
    ),
)

# Subjects of documents that name a query's concepts only in passing.
SUBJECTS = (
    "hearing in factory workers; school meals; shift work and sleep; dental decay; night driving; handwriting speed; "
    "noise in hospital corridors; neighbourhood parks; contact lens wear; tattoo inks; swimming lessons; house dust; "
    "cooking with wood; sick leave in teachers; library use; back strain in bakers; thumb length; tea drinking; "
    "winter clothing; pet ownership; colour vision; commuting by bicycle; chewing gum; marathon running; bed height; "
    "hospital food; shoe size; choir singing; video games; handedness; ward lighting; snoring in partners"
).split("; ")

ADJECTIVES = (
    "significant clear modest marked early late stable total local regional severe mild overall relative absolute "
    "lasting brief small large wide narrow higher lower uneven steady gradual abrupt partial complete chronic acute "
    "distal central diffuse focal primary secondary baseline residual seasonal yearly daily weekly routine selective "
    "global crude adjusted weighted expected observed notable doubtful plain simple complex mixed novel earlier later "
    "plausible consistent dense sparse linear curved inverse direct indirect bilateral coarse fine deep shallow"
).split()

NOUNS = (
    "response; uptake; exposure; intensity; duration; frequency; variation; distribution; severity; burden; function; "
    "recovery; progression; onset; threshold; balance; clearance; turnover; capacity; reserve; density; thickness; "
    "symptom scores; signalling; expression; resistance; sensitivity; timing; dosing; selection; detection; growth; "
    "inflammation; perfusion; pressure; oxygenation; temperature; absorption; metabolism; excretion; binding; release; "
    "mobility; strength; attention; fatigue; sleep; appetite; pain; stiffness; swelling; bleeding; clotting; healing; "
    "infection; immunity; antibody titres; genotype; phenotype; heritability; ancestry; income; schooling; housing; "
    "staffing; workload; waiting time; referral; screening; imaging; biopsy yield; staging; grading; prediction; "
    "calibration; agreement; reporting; coding; sampling; storage; transport; supply; demand; pricing; coverage"
).split("; ")
