// A server without keys whose programs wait for files, so that a story decides when something happens.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { serve } from "./server.mjs";

const config = (folder) => `
[egress]
allow = ["127.0.0.1/32"]
[webhooks]
first_retry = "100ms"
[kinds.gated]
command = ["sh", "-c", """
cat >/dev/null; echo '::phase waiting' >&2; echo '::progress 1/2 half of it' >&2
while ! [ -e '${folder}/gate' ]; do sleep 0.05; done; echo '{"done": true}'"""]
[kinds.printer]
command = ["sh", "-c", """
cat >/dev/null; [ -e '${folder}/mended' ] || { echo 'the printer is on fire' >&2; exit 1; }; echo '{"printed": 3}'"""]
[kinds.pipeline]
steps = [
  { name = "first", command = ["sh", "-c", "cat >/dev/null; echo '{\\"of\\": \\"first\\"}'"] },
  { name = "second", command = ["sh", "-c", "cat >/dev/null; echo '{\\"of\\": \\"second\\"}'"] },
  { name = "third", command = ["sh", "-c", "cat >/dev/null; echo '{\\"of\\": \\"third\\"}'"] },
]
[kinds.count-bytes]
command = ["sh", "-c", "cat >/dev/null; printf '{\\"bytes\\": %d}' $(wc -c < $LONGHAUL_PAYLOAD)"]
payload = true
`;

/** Starts the server; `more` returns configuration of further kinds, given the directory of the files. */
export async function controlledServer(more = () => "") {
  const folder = mkdtempSync(join(tmpdir(), "longhaul-stories-"));
  const server = await serve(config(folder) + more(folder));
  return {
    server,
    /** Creates a file that programs wait for. */
    createFile: (name) => writeFileSync(join(folder, name), ""),
    removeFile: (name) => rmSync(join(folder, name), { force: true }),
    stop: async () => {
      await server.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
