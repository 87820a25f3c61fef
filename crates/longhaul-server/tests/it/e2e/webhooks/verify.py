"""Says of each request on stdin what PyPI's standardwebhooks says: `ok`, or why it is refused.

Usage: python verify.py <REQUESTS, a JSON array of {secret, headers, body}
"""

import json
import sys

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

for request in json.loads(sys.stdin.buffer.read()):
    try:
        Webhook(request["secret"]).verify(request["body"], request["headers"])
        print("ok")
    except WebhookVerificationError as error:
        print(f"refused: {error}")
