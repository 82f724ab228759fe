"""Requests generated from the OpenAPI document: no status 500, and no undocumented answer."""

from contextlib import suppress

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_no_answer_is_a_failure_or_undocumented(service, mode):
    schema = schemathesis.openapi.from_dict(service.get("/openapi.json").json())
    schema.config.update(base_url=str(service.base_url))
    operations = [result.ok() for result in schema.get_all_operations()]
    assert len(operations) > 10
    for operation in operations:

        @given(operation.as_strategy(generation_mode=mode))
        @settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
        def check(case):
            case.call_and_validate(checks=CHECKS)

        with suppress(Unsatisfiable):  # an operation without parameters has no invalid requests
            check()
