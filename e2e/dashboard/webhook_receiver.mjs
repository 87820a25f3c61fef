// A webhook receiver that returns the status that a story sets.

import { once } from "node:events";
import { createServer } from "node:http";

export async function receive(status, says = "said by the receiver") {
  const taken = [];
  const server = createServer((request, response) => {
    request.resume().on("end", () => {
      taken.push(request.url);
      response.writeHead(status(request)).end(says);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  return {
    url: `http://127.0.0.1:${port}`,
    taken,
    stop: async () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
