import { setTimeout as delay } from "node:timers/promises";
import type { ConsumerInfo, JetStreamManager, JsMsg } from "@nats-io/jetstream";
import { STREAM } from "./bus.ts";
import type { Handler } from "./handler.ts";

/** The member of a consumer's metadata with the kinds of events that its processes handle. */
const HANDLES = "berth-handles";
/** How often a kind that no process here handles is returned at most, before it counts as nobody's. */
const MOST_RETURNS = 120;
/** How long what a consumer says may be unknown here: nobody reads it for every event that no process handles. */
const STALE_MS = 500;

type About = { name: string; handlers: Handler[] };

/**
 * What the processes of a consumer handle: during a rollout, those of a newer version may handle more kinds of events than
 * this one, which leaves these to them (docs/events.md#consuming).
 */
export function createHandledKinds({ name, handlers }: About) {
  const own = new Set(handlers.map(({ event }) => event));
  let listed: ReadonlySet<string> = own;
  /** Servers before 2.10 keep no metadata. */
  let isKept = true;
  let readAt = Number.NEGATIVE_INFINITY;
  const metadataOf = (kinds: Iterable<string>) => ({ [HANDLES]: [...kinds].sort().join(" ") });

  async function list(manager: JetStreamManager, kinds: ReadonlySet<string>): Promise<void> {
    listed = kinds;
    const { config } = await manager.consumers.update(STREAM, name, { metadata: metadataOf(kinds) });
    isKept = config.metadata?.[HANDLES] !== undefined;
  }

  return {
    /** The metadata of a consumer that is made. */
    metadata: metadataOf(own),
    /** Takes over what a consumer says, and adds what this process handles. */
    async compare(manager: JetStreamManager, { config }: ConsumerInfo): Promise<void> {
      if (!isKept) return;
      listed = new Set(config.metadata?.[HANDLES]?.split(" ").filter(Boolean));
      const all = new Set([...listed, ...own]);
      if (all.size === listed.size) return;
      await list(manager, all);
      // Then the others know, too.
      await delay(2 * STALE_MS);
    },
    /** Compares again before an event is dropped that a process which started just now may handle. */
    async refresh(manager: JetStreamManager, untaken: JsMsg[]): Promise<void> {
      if (untaken.every((message) => this.isOfOthers(message))) return;
      const now = performance.now();
      if (now - readAt < STALE_MS) return;
      const info = await manager.consumers.info(STREAM, name);
      readAt = now;
      await this.compare(manager, info);
    },
    /** Whether only other processes handle an event. */
    isOfOthers(message: JsMsg): boolean {
      const kind = message.subject.split(".")[3]!;
      return listed.has(kind) && !own.has(kind) && message.info.deliveryCount <= MOST_RETURNS;
    },
    /**
     * Forgets the kinds of processes that are gone, as after a rollback, when an event was returned too often. Those that are
     * not will say so again.
     */
    async forgetOthers(manager: JetStreamManager, message: JsMsg): Promise<void> {
      const kind = message.subject.split(".")[3]!;
      if (listed.has(kind) && !own.has(kind)) await list(manager, own);
    },
  };
}

export type HandledKinds = ReturnType<typeof createHandledKinds>;
