import { randomBytes } from "node:crypto";
import { once } from "node:events";
import type { ClientRequest, IncomingMessage } from "node:http";

export type ApiResponse = {
  status: number;
  headers: Headers;
  text: string;
  body: Record<string, unknown> & {
    error: { code: string; message: string; requestId: string; details: Detail[] } & Record<string, unknown>;
  };
};
type Detail = { path: string; reason: string; message: string };

/** Returns a function that sends requests as the owner, or with the token (`""`: none) and headers of `options`. */
export function apiClient(baseUrl: string, ownerToken: string) {
  return async (
    method: string,
    path: string,
    body?: unknown,
    options: { token?: string; headers?: Record<string, string> } = {},
  ): Promise<ApiResponse> => {
    const token = options.token ?? ownerToken;
    const response = await fetch(baseUrl + path, {
      method,
      headers: {
        ...(token && { authorization: `Bearer ${token}` }),
        ...(body !== undefined && { "content-type": "application/json" }),
        ...options.headers,
      },
      body: body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body),
    });
    const text = await response.text();
    const json = response.headers.get("content-type")?.startsWith("application/json");
    return {
      status: response.status,
      headers: response.headers,
      text,
      body: json && text ? JSON.parse(text) : {},
    };
  };
}

/** Returns a status with its code or reasons: `422 unknown_field`. */
export function refusalOf({ status, body }: ApiResponse): string {
  const reasons = (body.error?.details ?? []).map((detail) => detail.reason);
  return [status, ...(reasons.length > 0 ? reasons : [body.error?.code])].join(" ");
}

export const anyName = (prefix: string) => `${prefix}${randomBytes(5).toString("hex")}`;

/** Sends 64 KiB pieces until all are sent or a response comes, as a client with a large body does. */
export async function sendLarge(request: ClientRequest, pieces: number): Promise<IncomingMessage> {
  request.setMaxListeners(0);
  const answered = once(request, "response") as Promise<[IncomingMessage]>;
  for (let i = 0; i < pieces; i++)
    if (!request.write(Buffer.alloc(65_536, "x"))) await Promise.race([once(request, "drain"), answered]);
  request.end();
  const [response] = await answered;
  return response.resume();
}
