import type { Db } from "../../kit/postgres/db.ts";
import { invalid } from "../../kit/rpc/refusals.ts";
import type { Runtime } from "../runtime/port.ts";
import type { Logger } from "../shared/logger.ts";
import type { Measurable, Points } from "../terms/measurement.ts";
import { type AddonType, isDeployable, type ServiceType } from "../terms/services.ts";
import { findNames, listMinutes } from "./sql.ts";
import { KINDS, toSeries } from "./to-series.ts";

const HOUR_MS = 3_600_000;
/** How long metrics are kept: minutes are overwritten after a day. */
const KEPT_MS = 24 * HOUR_MS;

/** A span of whole steps, in ms. */
export type Span = { from: number; to: number; stepMs: number };

/** Returns the span of a request, within what is kept; pure. Throws 422 out_of_range for one that ends before it begins. */
export function toSpan(given: { from?: number; to?: number; step?: number }, now: number): Span {
  const stepMs = (given.step ?? 60) * 1_000;
  const to = Math.min(given.to ?? now, now);
  const from = Math.max(given.from ?? to - HOUR_MS, now - KEPT_MS);
  if (from >= to)
    throw invalid(
      given.from === undefined ? "to" : "from",
      "out_of_range",
      "Metrics are kept for 24 hours, and `from` must be before `to`.",
    );
  return { from: Math.floor(from / stepMs) * stepMs, to, stepMs };
}

type Service = { id: string; environmentId: string; type: ServiceType | AddonType };
/** What the series are read by that are not kept here, and which there are none of. */
export type SeriesSource = Pick<Runtime, "unmeasured" | "readSeries">;
export type ReadDeps = { db: Db; source: SeriesSource; log: Logger };

/** Series that only web services have, and those that only addons have. */
const OF_WEB: Measurable[] = ["requests"];
const OF_ADDONS: Measurable[] = ["storage", "capacity", "connections"];

const NO_ANSWER = "The installation's Prometheus did not answer. Try again.";

/** Returns the series of a service, and which are left out and why. */
export async function readMetrics(deps: ReadDeps, service: Service, span: Span) {
  const { from, to, stepMs } = span;
  const minutes = await listMinutes(deps.db, service.id, Math.max(from, Date.now() - KEPT_MS), to);
  const kept = toSeries(minutes, stepMs);
  const elsewhere = await readElsewhere(deps, service, span);
  const series = [];
  const unavailable = [];
  for (const { name, unit, of } of KINDS) {
    if (OF_WEB.includes(of) && service.type !== "web") continue;
    if (OF_ADDONS.includes(of) && isDeployable(service.type)) continue;
    const own = kept.get(name) ?? [];
    const points = own.length > 0 ? own : (elsewhere?.[name] ?? []);
    const why = deps.source.unmeasured?.[of];
    if (points.length > 0 || why === undefined) series.push({ name, unit, points });
    else unavailable.push({ name, message: elsewhere ? why : NO_ANSWER });
  }
  return { series, unavailable };
}

/** Returns the series that the runtime does not measure itself; undefined when what keeps them does not answer. */
async function readElsewhere(
  { db, source, log }: ReadDeps,
  { id, environmentId, type }: Service,
  span: Span,
): Promise<Record<string, Points> | undefined> {
  if (!source.readSeries) return {};
  const { name = "", objectName } = (await findNames(db, id)) ?? {};
  const called = { names: { service: name }, ...(objectName && { objectName }) };
  return source
    .readSeries({ serviceId: id, environmentId, ...called, type, ...span })
    .catch((err) => void log.warn({ err, serviceId: id }, "could not read metrics from Prometheus"));
}
