import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { ValidateFunction } from "ajv";
import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";

type Schema = Record<string, unknown>;
type Response = {
  $ref?: string;
  content?: Record<string, unknown>;
  "x-codes"?: { code: string; reasons: string[] }[];
};
type Operation = { path: string; method: string; pattern: RegExp; responses: Record<string, Response> };

/** How many bodies of an operation and status are compared; of later answers only the status. */
const COMPARED = 200;
const PREFIX = "/v1";

/** Compares answers of the API with gateway/openapi.json; of successes from stand-ins only the status. */
export function createContract({ standIns }: { standIns: () => boolean }) {
  let document: ReturnType<typeof readDocument> | undefined;
  const found = new Set<string>();
  const compared = new Map<string, number>();
  return {
    /** Records an answer; `text` is its body, if it was read. Ignores paths that no operation of the document has. */
    note(method: string, pathname: string, status: number, headers: Headers, text?: string): void {
      // Every answer of a gateway has a request id; an app may have paths like the API's.
      if (!pathname.startsWith(`${PREFIX}/`) || !headers.has("x-request-id")) return;
      document ??= readDocument();
      const operation = document.find(method, pathname.slice(PREFIX.length));
      if (!operation || status === 405) return;
      const name = `${operation.method.toUpperCase()} ${operation.path} ${status}`;
      if (!operation.responses[status]) found.add(`${name} is not documented`);
      const count = (compared.get(name) ?? 0) + 1;
      compared.set(name, count);
      if (text === undefined || count > COMPARED || !operation.responses[status]) return;
      if (status < 300 && standIns()) return;
      for (const problem of document.misfits(operation, status, headers, text))
        found.add(`${name}: ${problem}`);
    },
    /** Returns the differences found since the last call, each once. */
    takeBroken(): string[] {
      const broken = [...found];
      found.clear();
      return broken;
    },
  };
}

function readDocument() {
  const document = JSON.parse(readFileSync(join(import.meta.dirname, "../../gateway/openapi.json"), "utf8"));
  for (const schema of Object.values(document.components.schemas as Record<string, Schema>)) close(schema);
  const ajv = new Ajv2020({ strict: false, allErrors: false });
  addFormats.default(ajv);
  ajv.addFormat("int32", true);
  ajv.addSchema(document, "openapi");
  const operations: Operation[] = Object.entries(
    document.paths as Record<string, Record<string, Operation>>,
  ).flatMap(([path, item]) =>
    Object.entries(item).map(([method, { responses }]) => {
      const pattern = new RegExp(`^${path.replaceAll(/\{\w+\}/g, "[^/]+")}$`);
      return { path, method, pattern, responses };
    }),
  );
  // As in a router, a literal path takes precedence over one with a parameter.
  operations.sort((a, b) => a.path.split("{").length - b.path.split("{").length);
  const validators = new Map<string, ValidateFunction>();

  const responseOf = ({ responses }: Operation, status: number): [pointer: string | undefined, Response] => {
    const { $ref } = responses[status]!;
    if (!$ref) return [undefined, responses[status]!];
    const name = $ref.split("/").at(-1)!;
    return [`/components/responses/${name}`, document.components.responses[name]];
  };

  return {
    find(method: string, path: string): Operation | undefined {
      const wanted = method === "HEAD" ? "get" : method.toLowerCase();
      return operations.find((operation) => operation.method === wanted && operation.pattern.test(path));
    },
    /** Returns how a body, its error code included, differs from what its operation documents for this status. */
    misfits(operation: Operation, status: number, headers: Headers, text: string): string[] {
      const type = headers.get("content-type")?.split(";")[0] ?? "";
      const [referred, response] = responseOf(operation, status);
      if (!response.content?.[type]) return [`${type} is not documented`];
      if (type !== "application/json") return [];
      const own = `/paths/${escaped(operation.path)}/${operation.method}/responses/${status}`;
      const pointer = `${referred ?? own}/content/application~1json/schema`;
      const validate = validators.get(pointer) ?? ajv.compile({ $ref: `openapi#${encodeURI(pointer)}` });
      validators.set(pointer, validate);
      const body = JSON.parse(text);
      const refusals = unknownRefusals(response["x-codes"], body);
      if (refusals.length > 0 || validate(body)) return refusals;
      const { instancePath, message, params } = validate.errors![0]!;
      return [`${instancePath} ${message} ${JSON.stringify(params)}`];
    },
  };
}

/** Returns what an error says that a response does not document; nothing if it is no error. */
function unknownRefusals(known: Response["x-codes"], body: unknown): string[] {
  const { error } = (body ?? {}) as { error?: string | { code: string; details?: { reason: string }[] } };
  if (!known || error === undefined) return [];
  // Errors of OAuth are not in the envelope: their code is the member itself.
  const { code, details = [] } = typeof error === "string" ? { code: error } : error;
  const documented = known.find((each) => each.code === code);
  if (!documented) return [`the code ${code} is not documented`];
  return details
    .filter(({ reason }) => !documented.reasons.includes(reason))
    .map(({ reason }) => `the reason ${reason} is not documented`);
}

const escaped = (path: string) => path.replaceAll("~", "~0").replaceAll("/", "~1");

/** Forbids members that the document does not name. */
function close(schema: Schema): void {
  if (schema.type === "object" && schema.properties) schema.additionalProperties ??= false;
}
