import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { allRoutes, type Route } from "../../routing/routes.ts";
import { published } from "../../upstreams.ts";
import { readComments } from "./comments.ts";
import { fixedComponents } from "./components.ts";
import { eventsSentence, withEvents } from "./events.ts";
import { readExamples } from "./examples.ts";
import { camelCase, operation, type Sources, tagOf } from "./operation.ts";
import { registrationPaths, registrationSchemas } from "./registration.ts";
import { type Schema, schemaCollector } from "./schemas.ts";

const protos = join(import.meta.dirname, "../../../proto");
const file = join(import.meta.dirname, "../../openapi.json");

/** Returns the OpenAPI 3.1 document of all routes. The gateway that serves it fills in its own server. */
export function openapi(): Schema {
  const comments = readComments(protos);
  const schemas = schemaCollector(comments);
  const examples = readExamples(join(protos, "examples"));
  return {
    openapi: "3.1.0",
    info: {
      title: "Berth",
      version: "1",
      description:
        "Accounts, projects, environments, services, variables and deployments of your own platform.\n\n" +
        "Every request needs the header `Authorization: Bearer <token>`, except for a few public operations. " +
        "Every response has the header `X-Request-Id`. If a rate limit applies, it also has `RateLimit-Limit`, " +
        "`RateLimit-Remaining` and `RateLimit-Reset` (in seconds). Every error has the same envelope, " +
        "`ErrorEnvelopeDto`. For `429` and `503`, the `Retry-After` header says when to try again. Lists are " +
        "paginated, newest first: to get the next page, pass `page.nextCursor` as `cursor`.\n\n" +
        eventsSentence,
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    },
    servers: [{ url: "/v1" }],
    security: [{ bearer: [] }],
    tags: published.map(({ service }) => ({
      name: tagOf(service.name),
      description: comments.get(service.typeName) ?? "",
    })),
    paths: { ...paths({ schemas, comments, examples }), ...registrationPaths },
    // After `paths`: the schemas are those that the paths refer to.
    components: {
      ...fixedComponents,
      schemas: { ...schemas.all(), ...registrationSchemas, ...fixedComponents.schemas },
    },
  };
}

function paths(sources: Sources): Schema {
  const routes = allRoutes();
  for (const { rpc } of routes) sources.schemas.markRequest(rpc.input);
  const items: Record<string, Record<string, Schema>> = {};
  const streamsLast = routes.toSorted((a, b) => Number(!!a.follow) - Number(!!b.follow));
  for (const route of streamsLast) {
    const [path, method] = [pathOf(route), route.method.toLowerCase()];
    const made = operation(route, sources);
    const json = items[path]?.[method];
    items[path] = { ...items[path], [method]: json ? withEvents(json, made) : made };
  }
  return items;
}

const pathOf = ({ template }: Route) =>
  template.replaceAll(/\{(\w+)\}/g, (_, name: string) => `{${camelCase(name)}}`);

if (import.meta.main) {
  const text = `${JSON.stringify(openapi(), null, 2)}\n`;
  if (!process.argv.includes("--check")) await writeFile(file, text);
  else if ((await readFile(file, "utf8").catch(() => "")) !== text) {
    process.stderr.write("gateway/openapi.json is stale: run node gateway/docs/generate/openapi.ts\n");
    process.exitCode = 1;
  }
}
