import type { ServerResponse } from "node:http";

/** The body of a registry's refusals. */
export type Refusal = { status: number; code: string; message: string; headers?: Record<string, string> };

export const JSON_TYPE = { "content-type": "application/json; charset=utf-8" };

/** Answers as registries do. To HEAD, the server leaves the body out. */
export function refuse(response: ServerResponse, { status, headers, ...error }: Refusal): void {
  response.writeHead(status, { ...JSON_TYPE, ...headers }).end(JSON.stringify({ errors: [error] }));
}
