"""A check for scripts/schemathesis: input that matches /openapi.json is never rejected as malformed.

The check of schemathesis itself, positive_data_acceptance, looks at statuses only. A schema does not know which
kinds exist, which jobs were deleted or which URLs an operator allows, so those rejections are fine; a value that
the server cannot parse is not.
"""

import re

import schemathesis

# Codes of problems about the form of a request.
MALFORMED = {"bad-request", "idempotency-key-invalid", "validation"}

# Rules about the time, about several fields together, or about durations, which no schema expresses.
NOT_IN_A_SCHEMA = re.compile(
    "|".join(
        [
            r"expiresAt is in the past",
            r"from and to must be at most 400 days apart",
            r"from must not be after to",
            r"runAt and delay are mutually exclusive",
            r"overlap must be at most",
            r"is over the limit",
            r"is not a duration: it is too long",
            r"the timeout must be longer than zero",
            r"does not accept payloads",
            # JSON Schema counts 1.0 as an integer.
            r"invalid type: floating point",
            # The order of the parts of a form, and names of parts that schemathesis writes without escapes.
            r"the first part must be `job`",
            r"invalid multipart/form-data",
        ]
    )
)


@schemathesis.check
def valid_input_is_not_malformed(ctx, response, case):
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    if response.status_code not in (400, 422):
        return
    problem = response.json()
    if problem["code"] in MALFORMED and not NOT_IN_A_SCHEMA.search(problem["detail"]):
        raise AssertionError(f"matches the schema, and was rejected as malformed: {problem['detail']}")
