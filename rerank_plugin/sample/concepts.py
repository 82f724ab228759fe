"""What the documents of the bundled sample are about: concepts, each with its synonyms and the words of its company.

Written for this project from general knowledge; nothing is copied from a vocabulary or a publication. The synonyms of
a concept are interchangeable in every sentence, and the *company* (signs, mechanisms, settings) appears next to any of
them, so that word embeddings trained on the sample can bring synonyms together.
"""

from __future__ import annotations

from typing import NamedTuple


class Concept(NamedTuple):
    """``forms`` are synonyms, the commonest first; ``broader`` names something wider; ``conditions`` are keys."""

    key: str
    type: str  # condition, drug, gene, procedure, population or outcome
    forms: tuple[str, ...]
    company: tuple[str, ...] = ()
    broader: str = ""
    conditions: tuple[str, ...] = ()


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(";"))


def _condition(key: str, forms: str, company: str, broader: str) -> Concept:
    return Concept(key, "condition", _list(forms), _list(company), broader)


def _agent(type: str, forms: str, company: str, broader: str, conditions: str) -> Concept:
    names = _list(forms)
    return Concept(names[0], type, names, _list(company), broader, tuple(conditions.split()))


CONDITIONS = (
    _condition(
        "infarction",
        "myocardial infarction; heart attack; MI; acute coronary occlusion",
        "chest pain; raised troponin; coronary thrombosis; ST elevation; ventricular damage",
        "coronary disease",
    ),
    _condition(
        "stroke",
        "stroke; cerebral infarction; brain attack; cerebrovascular accident",
        "hemiparesis; speech loss; carotid stenosis; thrombolysis windows; limb weakness",
        "cerebrovascular disease",
    ),
    _condition(
        "hypertension",
        "hypertension; high blood pressure; elevated arterial pressure",
        "systolic readings; salt intake; left ventricular mass; ambulatory monitoring; vascular stiffness",
        "cardiovascular disease",
    ),
    _condition(
        "fibrillation",
        "atrial fibrillation; AF; atrial arrhythmia",
        "irregular pulse; cardioversion; palpitations; left atrial size; embolic risk",
        "rhythm disorders",
    ),
    _condition(
        "heart_failure",
        "heart failure; cardiac insufficiency; congestive cardiac decompensation; CHF",
        "ejection fraction; ankle oedema; natriuretic peptides; breathlessness; diuretic need",
        "cardiovascular disease",
    ),
    _condition(
        "thrombosis",
        "venous thromboembolism; deep vein thrombosis; VTE; leg clots",
        "calf swelling; D-dimer; pulmonary embolism; immobility; compression stockings",
        "vascular disease",
    ),
    _condition(
        "diabetes",
        "type 2 diabetes; T2DM; adult-onset diabetes; non-insulin-dependent diabetes",
        "glycated haemoglobin; fasting glucose; insulin resistance; retinal screening; foot ulcers",
        "metabolic disease",
    ),
    _condition(
        "obesity",
        "obesity; excess body weight; adiposity",
        "body mass index; waist girth; energy intake; satiety; physical inactivity",
        "metabolic disease",
    ),
    _condition(
        "asthma",
        "asthma; reversible airway obstruction; bronchial hyperreactivity",
        "wheeze; peak flow; night cough; eosinophils; inhaler technique",
        "airway disease",
    ),
    _condition(
        "copd",
        "COPD; chronic obstructive pulmonary disease; emphysema; chronic bronchitis",
        "spirometry; smoking history; exacerbations; sputum; six-minute walk",
        "airway disease",
    ),
    _condition(
        "pneumonia",
        "pneumonia; lower respiratory tract infection; lung consolidation",
        "fever; crackles; chest radiographs; oxygen need; sputum culture",
        "respiratory infection",
    ),
    _condition(
        "tuberculosis",
        "tuberculosis; TB; mycobacterial lung disease",
        "night sweats; sputum smears; contact tracing; cavities; directly observed dosing",
        "respiratory infection",
    ),
    _condition(
        "sepsis",
        "sepsis; septicaemia; bloodstream infection",
        "lactate; vasopressor need; blood cultures; organ dysfunction; fluid resuscitation",
        "severe infection",
    ),
    _condition(
        "influenza",
        "influenza; flu; seasonal grippe",
        "sore throat; viral shedding; winter outbreaks; vaccination coverage; myalgia",
        "respiratory infection",
    ),
    _condition(
        "hepatitis",
        "hepatitis C; HCV infection; chronic viral hepatitis",
        "liver stiffness; viral load; cirrhosis; raised transaminases; shared needles",
        "liver disease",
    ),
    _condition(
        "malaria",
        "malaria; plasmodium infection; falciparum parasitaemia",
        "bed nets; blood films; mosquito exposure; rigors; splenic enlargement",
        "parasitic infection",
    ),
    _condition(
        "arthritis",
        "rheumatoid arthritis; RA; inflammatory polyarthritis",
        "swollen joints; morning stiffness; erosions; rheumatoid factor; synovitis",
        "joint disease",
    ),
    _condition(
        "osteoarthritis",
        "osteoarthritis; degenerative joint disease; joint wear",
        "cartilage loss; knee pain; stair climbing; osteophytes; walking aids",
        "joint disease",
    ),
    _condition(
        "osteoporosis",
        "osteoporosis; low bone density; bone fragility",
        "hip fracture; vertebral collapse; bone scans; falls; calcium intake",
        "bone disease",
    ),
    _condition(
        "gout",
        "gout; hyperuricaemic arthritis; urate crystal disease",
        "serum urate; tophi; toe pain; purine intake; crystal deposits",
        "joint disease",
    ),
    _condition(
        "psoriasis",
        "psoriasis; plaque skin disease; psoriatic plaques",
        "scaling; nail pitting; keratinocytes; phototherapy rooms; body surface area",
        "skin disease",
    ),
    _condition(
        "eczema",
        "eczema; atopic dermatitis; atopic skin inflammation",
        "itch; dry skin; emollients; sleep loss; skin barrier",
        "skin disease",
    ),
    _condition(
        "depression",
        "depression; depressive disorder; low mood; melancholia",
        "sadness; loss of interest; mood scales; suicidal thoughts; early waking",
        "mental illness",
    ),
    _condition(
        "schizophrenia",
        "schizophrenia; psychotic disorder; chronic psychosis",
        "hallucinations; delusions; negative symptoms; adherence; first episodes",
        "mental illness",
    ),
    _condition(
        "alzheimer",
        "Alzheimer disease; senile dementia; AD; degenerative dementia",
        "memory loss; amyloid; hippocampal volume; carer strain; word finding",
        "neurodegenerative disease",
    ),
    _condition(
        "parkinson",
        "Parkinson disease; paralysis agitans; idiopathic parkinsonism",
        "tremor; rigidity; slow gait; substantia nigra; freezing",
        "neurodegenerative disease",
    ),
    _condition(
        "epilepsy",
        "epilepsy; seizure disorder; recurrent convulsions",
        "seizure diaries; electroencephalograms; aura; driving licences; spike waves",
        "brain disease",
    ),
    _condition(
        "migraine",
        "migraine; recurrent vascular headache; hemicrania",
        "photophobia; visual aura; nausea; headache days; trigger foods",
        "headache disorders",
    ),
    _condition(
        "sclerosis",
        "multiple sclerosis; MS; disseminated demyelination",
        "relapses; white matter lesions; optic neuritis; spasticity; myelin",
        "neurological disease",
    ),
    _condition(
        "breast_cancer",
        "breast cancer; mammary carcinoma; breast tumours",
        "mammography; axillary nodes; receptor status; lumpectomy; hot flushes",
        "malignant disease",
    ),
    _condition(
        "lung_cancer",
        "lung cancer; bronchogenic carcinoma; NSCLC; pulmonary tumours",
        "pack years; mediastinal nodes; lobectomy; haemoptysis; brain metastases",
        "malignant disease",
    ),
    _condition(
        "bowel_cancer",
        "colorectal cancer; bowel cancer; colonic carcinoma",
        "colonoscopy; faecal blood; liver metastases; stoma; polyps",
        "malignant disease",
    ),
    _condition(
        "prostate_cancer",
        "prostate cancer; prostatic carcinoma; cancer of the prostate",
        "PSA; Gleason score; androgen deprivation; bone scans; urinary leakage",
        "malignant disease",
    ),
    _condition(
        "oesophageal_cancer",
        "oesophageal cancer; esophageal cancer; carcinoma of the gullet",
        "dysphagia; stents; Barrett mucosa; weight loss; endoscopy",
        "malignant disease",
    ),
    _condition(
        "kidney_disease",
        "chronic kidney disease; renal insufficiency; CKD; chronic nephropathy",
        "albuminuria; serum creatinine; dialysis; filtration rate; phosphate",
        "renal disorders",
    ),
    _condition(
        "anaemia",
        "anaemia; anemia; low haemoglobin",
        "ferritin; pallor; red cells; transfusion; tiredness",
        "blood disorders",
    ),
    _condition(
        "crohn",
        "Crohn disease; regional enteritis; granulomatous bowel inflammation",
        "fistulas; abdominal cramps; calprotectin; ileal strictures; diarrhoea",
        "bowel disease",
    ),
    _condition(
        "reflux",
        "gastro-oesophageal reflux; GERD; acid regurgitation",
        "heartburn; acid exposure; hiatus hernia; oesophagitis; belching",
        "stomach disease",
    ),
    _condition(
        "preeclampsia",
        "preeclampsia; toxaemia of pregnancy; gestational proteinuric hypertension",
        "proteinuria; placental flow; growth restriction; antenatal visits; early delivery",
        "pregnancy complications",
    ),
    _condition(
        "preterm_birth",
        "preterm birth; premature delivery; prematurity",
        "short cervix; neonatal units; surfactant; gestational age; contractions",
        "pregnancy complications",
    ),
    _condition(
        "glaucoma",
        "glaucoma; raised intraocular pressure; ocular hypertension",
        "visual fields; optic disc cupping; eye drops; aqueous outflow; tunnel vision",
        "eye disease",
    ),
)

AGENTS = (
    _agent(
        "drug",
        "aspirin; acetylsalicylic acid; ASA",
        "platelet aggregation; gastric bleeding; cyclooxygenase",
        "antiplatelet agents",
        "infarction stroke preeclampsia",
    ),
    _agent(
        "drug",
        "clopidogrel; thienopyridine tablets; P2Y12 blockade",
        "platelet reactivity; loading doses; bruising",
        "antiplatelet agents",
        "infarction stroke",
    ),
    _agent(
        "drug",
        "statins; HMG-CoA reductase inhibitors; cholesterol-lowering tablets",
        "LDL cholesterol; muscle ache; plaque stability",
        "lipid management",
        "infarction stroke diabetes",
    ),
    _agent(
        "drug",
        "metoprolol; beta blockade; selective beta-adrenergic antagonists",
        "heart rate; cold hands; sympathetic drive",
        "cardiac drugs",
        "infarction fibrillation",
    ),
    _agent(
        "drug",
        "ramipril; ACE inhibitors; angiotensin-converting enzyme inhibition",
        "dry cough; potassium; bradykinin",
        "blood vessel drugs",
        "hypertension kidney_disease",
    ),
    _agent(
        "drug",
        "warfarin; coumarin; vitamin K antagonists",
        "prothrombin times; bleeding; dietary greens",
        "anticoagulant drugs",
        "fibrillation thrombosis stroke",
    ),
    _agent(
        "drug",
        "heparin; low-molecular-weight heparin; LMWH; enoxaparin",
        "antithrombin; injection bruises; platelet counts",
        "anticoagulant drugs",
        "thrombosis",
    ),
    _agent(
        "drug",
        "furosemide; loop diuretics; water tablets",
        "urine output; sodium loss; congestion",
        "diuretic drugs",
        "hypertension",
    ),
    _agent(
        "drug",
        "metformin; biguanide tablets; dimethylbiguanide",
        "lactic acidosis; hepatic glucose output; bowel upset",
        "antidiabetic drugs",
        "diabetes obesity",
    ),
    _agent(
        "drug",
        "semaglutide; GLP-1 agonists; incretin mimetics",
        "gastric emptying; weekly injections; appetite",
        "antidiabetic drugs",
        "diabetes obesity",
    ),
    _agent(
        "drug",
        "salbutamol; albuterol; short-acting bronchodilators",
        "spacer devices; hand tremor; rescue puffs",
        "inhaled drugs",
        "asthma copd",
    ),
    _agent(
        "drug",
        "budesonide; inhaled corticosteroids; inhaled glucocorticoids",
        "oral thrush; hoarseness; mucosal swelling",
        "inhaled drugs",
        "asthma copd crohn",
    ),
    _agent(
        "drug",
        "tiotropium; long-acting antimuscarinics; LAMA",
        "dry mouth; bronchial tone; dry powder devices",
        "inhaled drugs",
        "copd",
    ),
    _agent(
        "drug",
        "amoxicillin; aminopenicillins; oral beta-lactams",
        "rash; resistant strains; short courses",
        "antibacterial drugs",
        "pneumonia copd",
    ),
    _agent(
        "drug",
        "rifampicin; rifampin; rifamycins",
        "orange urine; enzyme induction; drug resistance",
        "antibacterial drugs",
        "tuberculosis",
    ),
    _agent(
        "drug",
        "oseltamivir; neuraminidase inhibitors; anti-influenza capsules",
        "symptom duration; vomiting; household spread",
        "antiviral drugs",
        "influenza pneumonia",
    ),
    _agent(
        "drug",
        "sofosbuvir; direct-acting antivirals; NS5B inhibition",
        "sustained response; reinfection; polymerase",
        "antiviral drugs",
        "hepatitis",
    ),
    _agent(
        "drug",
        "artemether; artemisinin combinations; qinghaosu derivatives",
        "parasite clearance; fever clearance; partner drugs",
        "antiparasitic drugs",
        "malaria",
    ),
    _agent(
        "drug",
        "methotrexate; MTX; low-dose antifolate",
        "folic acid; liver enzymes; mouth ulcers",
        "immunosuppressive drugs",
        "arthritis psoriasis crohn",
    ),
    _agent(
        "drug",
        "adalimumab; anti-TNF antibodies; tumour necrosis factor blockade",
        "injection reactions; latent infection; trough levels",
        "biological drugs",
        "arthritis psoriasis crohn",
    ),
    _agent(
        "drug",
        "ibuprofen; NSAIDs; non-steroidal anti-inflammatory drugs",
        "prostaglandins; stomach ulcers; fluid retention",
        "analgesic drugs",
        "osteoarthritis gout migraine",
    ),
    _agent(
        "drug",
        "allopurinol; xanthine oxidase inhibition; urate-lowering tablets",
        "uric acid; hypersensitivity; flare rates",
        "purine drugs",
        "gout kidney_disease",
    ),
    _agent(
        "drug",
        "alendronate; bisphosphonates; antiresorptive tablets",
        "jaw necrosis; bone turnover; upright dosing",
        "bone drugs",
        "osteoporosis prostate_cancer",
    ),
    _agent(
        "drug",
        "sertraline; SSRIs; selective serotonin reuptake inhibitors",
        "serotonin; sexual dysfunction; tapering",
        "antidepressant drugs",
        "depression stroke",
    ),
    _agent(
        "drug",
        "clozapine; atypical antipsychotics; second-generation neuroleptics",
        "white cell counts; weight gain; dopamine",
        "psychotropic drugs",
        "schizophrenia parkinson",
    ),
    _agent(
        "drug",
        "donepezil; cholinesterase inhibitors; anticholinesterase tablets",
        "acetylcholine; slow pulse; vivid dreams",
        "cognitive drugs",
        "alzheimer parkinson",
    ),
    _agent(
        "drug",
        "levodopa; L-dopa; dopamine precursors",
        "dyskinesia; wearing off; carbidopa",
        "dopaminergic drugs",
        "parkinson",
    ),
    _agent(
        "drug",
        "valproate; valproic acid; branched-chain anticonvulsants",
        "birth defects; serum levels; hair loss",
        "antiseizure drugs",
        "epilepsy migraine",
    ),
    _agent(
        "drug",
        "sumatriptan; triptans; 5-HT1 agonists",
        "vasoconstriction; chest tightness; nasal sprays",
        "headache drugs",
        "migraine",
    ),
    _agent(
        "drug",
        "interferon beta; IFN-β; immunomodulating injections",
        "neutralising antibodies; flu-like malaise; injection sites",
        "biological drugs",
        "sclerosis",
    ),
    _agent(
        "drug",
        "tamoxifen; selective oestrogen receptor modulators; SERMs",
        "endometrial thickness; vaginal dryness; oestrogen receptors",
        "hormonal drugs",
        "breast_cancer",
    ),
    _agent(
        "drug",
        "cisplatin; platinum chemotherapy; platinum doublets",
        "hearing loss; kidney injury; vomiting",
        "cytotoxic drugs",
        "lung_cancer oesophageal_cancer",
    ),
    _agent(
        "drug",
        "pembrolizumab; checkpoint inhibitors; anti-PD-1 antibodies",
        "immune colitis; thyroiditis; T cells",
        "biological drugs",
        "lung_cancer bowel_cancer oesophageal_cancer",
    ),
    _agent(
        "drug",
        "erythropoietin; EPO; epoetin; erythropoiesis-stimulating agents",
        "haemoglobin targets; reticulocytes; blood viscosity",
        "blood-forming drugs",
        "anaemia kidney_disease",
    ),
    _agent(
        "drug",
        "omeprazole; proton pump inhibitors; PPIs; acid suppression",
        "gastrin; parietal cells; rebound acidity",
        "stomach drugs",
        "reflux oesophageal_cancer",
    ),
    _agent(
        "drug",
        "progesterone; gestagens; vaginal progestogens",
        "cervical length; drowsiness; uterine quiescence",
        "hormonal drugs",
        "preterm_birth",
    ),
    _agent(
        "drug",
        "latanoprost; prostaglandin eye drops; topical prostanoids",
        "iris darkening; lash growth; red eyes",
        "eye drugs",
        "glaucoma",
    ),
    _agent(
        "drug",
        "vitamin D; cholecalciferol; calciferol",
        "sunlight; parathyroid hormone; seasonal levels",
        "food supplements",
        "osteoporosis tuberculosis sclerosis asthma",
    ),
    _agent(
        "gene",
        "IL-6; interleukin 6; B-cell stimulatory factor 2",
        "acute phase proteins; JAK signalling; CRP",
        "cytokines",
        "arthritis sepsis pneumonia",
    ),
    _agent(
        "gene",
        "TNF-α; tumour necrosis factor alpha; cachectin",
        "NF-κB; macrophages; shed receptors",
        "cytokines",
        "arthritis crohn psoriasis sepsis",
    ),
    _agent(
        "gene",
        "p53; TP53; tumour protein 53",
        "cell cycle arrest; MDM2; apoptosis",
        "tumour suppressors",
        "breast_cancer lung_cancer oesophageal_cancer",
    ),
    _agent(
        "gene",
        "BRCA1; breast cancer susceptibility gene 1; RNF53",
        "DNA repair; family history; founder mutations",
        "tumour suppressors",
        "breast_cancer prostate_cancer",
    ),
    _agent(
        "gene",
        "EGFR; ERBB1; epidermal growth factor receptor",
        "exon 19; tyrosine kinase; T790M",
        "growth factor receptors",
        "lung_cancer bowel_cancer",
    ),
    _agent(
        "gene",
        "HER2; ERBB2; neu receptor",
        "gene amplification; trastuzumab; immunohistochemistry",
        "growth factor receptors",
        "breast_cancer oesophageal_cancer",
    ),
    _agent(
        "gene",
        "KRAS; Kirsten ras; K-ras oncogene",
        "codon 12; MAPK; GTPase",
        "oncogenes",
        "bowel_cancer lung_cancer",
    ),
    _agent(
        "gene",
        "APOE4; apolipoprotein E epsilon 4; APOE ε4 allele",
        "carriers; tau; cholesterol transport",
        "lipid genes",
        "alzheimer infarction",
    ),
    _agent(
        "gene",
        "TCF7L2; transcription factor 7-like 2; TCF4 locus",
        "beta cells; Wnt; risk alleles",
        "susceptibility loci",
        "diabetes",
    ),
    _agent(
        "gene",
        "FTO; fat mass gene; alpha-ketoglutarate dioxygenase locus",
        "appetite; twin pairs; intronic variants",
        "susceptibility loci",
        "obesity diabetes",
    ),
    _agent(
        "gene",
        "LRRK2; dardarin; leucine-rich repeat kinase 2",
        "G2019S; kinase activity; carriers",
        "susceptibility loci",
        "parkinson crohn",
    ),
    _agent(
        "gene",
        "HLA-DRB1; shared epitope; class II DR beta alleles",
        "antigen presentation; citrullinated peptides; haplotypes",
        "immune genes",
        "arthritis sclerosis",
    ),
    _agent(
        "gene",
        "filaggrin; FLG; profilaggrin",
        "null alleles; cornified envelope; water loss",
        "barrier genes",
        "eczema asthma",
    ),
    _agent(
        "gene",
        "factor V Leiden; F5 R506Q; activated protein C resistance",
        "coagulation; heterozygotes; oral contraceptives",
        "clotting genes",
        "thrombosis preeclampsia",
    ),
    _agent(
        "gene",
        "CRP; C-reactive protein; pentraxin 1",
        "hepatocytes; opsonins; high-sensitivity tests",
        "inflammatory markers",
        "infarction pneumonia sepsis depression",
    ),
    _agent(
        "gene",
        "BDNF; brain-derived neurotrophic factor; Val66Met neurotrophin",
        "synaptic plasticity; TrkB; hippocampus",
        "nerve growth factors",
        "depression schizophrenia alzheimer",
    ),
    _agent(
        "gene",
        "VEGF; vascular endothelial growth factor; vasculotropin",
        "new vessels; bevacizumab; hypoxia",
        "growth factors",
        "bowel_cancer preeclampsia glaucoma",
    ),
    _agent(
        "procedure",
        "bariatric surgery; gastric bypass; weight-loss operations; sleeve gastrectomy",
        "dumping; micronutrients; excess weight loss",
        "abdominal surgery",
        "obesity diabetes reflux",
    ),
    _agent(
        "procedure",
        "cognitive behavioural therapy; CBT; structured talking treatment",
        "homework tasks; therapists; negative thoughts",
        "psychological care",
        "depression schizophrenia migraine",
    ),
    _agent(
        "procedure",
        "exercise training; physical activity programmes; supervised aerobic workouts",
        "oxygen uptake; treadmills; attendance",
        "rehabilitation",
        "heart_failure copd osteoarthritis depression parkinson",
    ),
    _agent(
        "procedure",
        "catheter ablation; pulmonary vein isolation; radiofrequency ablation",
        "tamponade; electrograms; repeat procedures",
        "cardiac procedures",
        "fibrillation",
    ),
    _agent(
        "procedure",
        "coronary stenting; percutaneous coronary intervention; PCI; balloon angioplasty",
        "door-to-balloon time; restenosis; radial access",
        "cardiac procedures",
        "infarction",
    ),
    _agent(
        "procedure",
        "mechanical thrombectomy; endovascular clot retrieval; stent retrievers",
        "recanalisation; groin puncture; penumbra",
        "vascular procedures",
        "stroke",
    ),
    _agent(
        "procedure",
        "knee replacement; total knee arthroplasty; TKA",
        "prosthesis loosening; range of motion; tourniquets",
        "orthopaedic surgery",
        "osteoarthritis arthritis",
    ),
    _agent(
        "procedure",
        "deep brain stimulation; DBS; subthalamic electrodes",
        "pulse generators; lead placement; battery life",
        "brain surgery",
        "parkinson epilepsy depression",
    ),
    _agent(
        "procedure",
        "radiotherapy; radiation treatment; external beam irradiation",
        "fractions; skin burns; gray",
        "cancer care",
        "breast_cancer prostate_cancer lung_cancer",
    ),
    _agent(
        "procedure",
        "radical prostatectomy; prostate removal; robotic prostate excision",
        "nerve sparing; margins; catheter days",
        "cancer care",
        "prostate_cancer",
    ),
    _agent(
        "procedure",
        "haemodialysis; hemodialysis; renal replacement; artificial kidney sessions",
        "fistula access; ultrafiltration; dry weight",
        "renal care",
        "kidney_disease",
    ),
    _agent(
        "procedure",
        "iron infusion; intravenous iron; parenteral iron",
        "ferritin targets; infusion reactions; hepcidin",
        "blood management",
        "anaemia heart_failure kidney_disease",
    ),
    _agent(
        "procedure",
        "telemonitoring; remote home monitoring; telehealth follow-up",
        "smartphones; alerts; nurse calls",
        "organised care",
        "heart_failure hypertension copd asthma",
    ),
    _agent(
        "procedure",
        "pulmonary rehabilitation; breathing exercise courses; respiratory physiotherapy",
        "breathlessness scores; group sessions; walking distance",
        "rehabilitation",
        "copd asthma",
    ),
    _agent(
        "procedure",
        "fundoplication; antireflux surgery; Nissen wrap",
        "bloating; sphincter pressure; wrap failure",
        "abdominal surgery",
        "reflux",
    ),
    _agent(
        "procedure",
        "selective laser trabeculoplasty; SLT; laser trabecular treatment",
        "angle structures; pressure spikes; repeat laser",
        "eye procedures",
        "glaucoma",
    ),
)


def _group(type: str, *forms: str) -> tuple[Concept, ...]:
    return tuple(Concept(_list(text)[0], type, _list(text)) for text in forms)


POPULATIONS = _group(
    "population",
    "children; paediatric patients; pediatric patients; boys and girls",
    "older adults; the elderly; geriatric patients; people over 75",
    "pregnant women; expectant mothers; pregnancy",
    "adolescents; teenagers; young people",
    "women; female patients",
    "men; male patients",
    "primary care; general practice; family medicine",
    "critically ill patients; intensive care; ICU patients",
)

OUTCOMES = _group(
    "outcome",
    "mortality; deaths; survival; fatality",
    "quality of life; well-being; daily functioning",
    "readmission; rehospitalisation; repeat hospital stays",
    "cost; expenditure; economic burden",
    "adverse events; side effects; toxicity; tolerability",
    "recurrence; relapse; return of disease",
    "adherence; compliance; persistence with treatment",
)
