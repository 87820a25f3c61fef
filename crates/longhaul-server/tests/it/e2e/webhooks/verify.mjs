// Says of each request on stdin what npm's standardwebhooks says: `ok`, or why it is refused.
// Usage: node verify.mjs MODULES_FOLDER <REQUESTS, a JSON array of {secret, headers, body}

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const require = createRequire(join(process.argv[2], "verify.cjs"));
const { Webhook, WebhookVerificationError } = require("standardwebhooks");

for (const { secret, headers, body } of JSON.parse(readFileSync(0, "utf8"))) {
  try {
    new Webhook(secret).verify(body, headers);
    console.log("ok");
  } catch (error) {
    if (!(error instanceof WebhookVerificationError)) throw error;
    console.log(`refused: ${error.message}`);
  }
}
