import type { LogSource } from "../../../runtime/kubernetes/logs/log-source.ts";

/** What PostgreSQL logged, by the names of its columns in the operator's JSON. */
type LogRecord = {
  error_severity?: string;
  message?: string;
  detail?: string;
  hint?: string;
  internal_query?: string;
  context?: string;
  query?: string;
};

/**
 * The lines of PostgreSQL, in its own words, among those of the operator's process in the same container. The others are left
 * out: they name the object store, addresses of the cluster and other things of whoever runs the installation.
 */
export const serverLines: NonNullable<LogSource["format"]> = { part: '"logger":"postgres"', show: showLine };

function showLine(raw: string): string[] {
  const line = parse(raw);
  if (line.logger !== "postgres") return [];
  const { msg = "", record } = line;
  // Before its collector of logs runs, the server writes plain lines.
  if (!record) return [msg];
  const parts = [
    [record.error_severity ?? "LOG", record.message ?? ""],
    ["DETAIL", record.detail],
    ["HINT", record.hint],
    ["QUERY", record.internal_query],
    ["CONTEXT", record.context],
    ["STATEMENT", record.query],
  ];
  return parts.flatMap(([name, text]) => (text === undefined ? [] : `${name}:  ${text}`.split("\n")));
}

function parse(raw: string): { logger?: string; msg?: string; record?: LogRecord } {
  try {
    return JSON.parse(raw) ?? {};
  } catch {
    return {}; // Of something that is not the operator's, or cut off by the node.
  }
}
