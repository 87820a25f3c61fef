// A real OpenID Connect issuer on a free port of this machine, for one test. Prints its address when it is
// ready. Usage: node issuer.mjs MODULES_FOLDER

import { createServer } from "node:http";
import { generateKeyPairSync } from "node:crypto";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const library = join(process.argv[2], "oidc-provider", "lib", "index.js");
const { Provider } = await import(pathToFileURL(library));

const signing = (kid, alg, { privateKey }) => ({
  ...privateKey.export({ format: "jwk" }), kid, alg, use: "sig",
});
const keys = [
  signing("first", "RS256", generateKeyPairSync("rsa", { modulusLength: 2048 })),
  signing("second", "ES256", generateKeyPairSync("ec", { namedCurve: "P-256" })),
  signing("third", "Ed25519", generateKeyPairSync("ed25519")),
];

// One client for each algorithm and tenant: what a resource's tokens are signed with is told per client.
const client = (client_id) => ({
  client_id, client_secret: "secret", grant_types: ["client_credentials"],
  redirect_uris: [], response_types: [],
});

const server = createServer();
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: ["RS256.default", "ES256.default", "Ed25519.default", "RS256.nobody"].map(client),
    jwks: { keys },
    scopes: ["longhaul:submit", "longhaul:read"],
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: false },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_context, audience, { clientId }) => ({
          scope: "longhaul:submit longhaul:read",
          audience,
          accessTokenTTL: 600,
          accessTokenFormat: "jwt",
          jwt: { sign: { alg: clientId.split(".")[0] } },
        }),
      },
    },
    extraTokenClaims: (_context, token) => ({
      tenant: token.clientId.split(".")[1],
      // Such a token speaks for a program, which this issuer does not name by itself.
      sub: token.clientId,
    }),
  });
  server.on("request", provider.callback());
  console.log(issuer);
});
