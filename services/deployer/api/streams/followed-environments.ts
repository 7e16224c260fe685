import { equals } from "@bufbuild/protobuf";
import {
  type EnvironmentEvent,
  ServiceStateSchema,
} from "../../../../proto/gen/berth/deployer/v1/catalog_pb.ts";
import { createLanes } from "../../../kit/concurrency/lanes.ts";
import type { Logger } from "../../../kit/log.ts";
import type { ChangeFeed } from "../../../kit/postgres/change-feed.ts";
import type { Pool } from "../../../kit/postgres/db.ts";
import { notFound } from "../../../kit/rpc/refusals.ts";
import type { Start } from "../../../kit/streams/follow-set.ts";
import { FollowedSet } from "../../../kit/streams/followed-set.ts";
import { orUnavailable } from "../../../kit/streams/or-unavailable.ts";
import { startTask } from "../../../kit/tasks/task.ts";
import { FIND_MISSED_CHANGES } from "../../tasks.ts";
import {
  compareEnvironments,
  listChanged,
  type Mark,
  pruneChanges,
  readEnvironment,
} from "./environment-sql.ts";
import { type SetEvent, toSetEvent } from "./service-state.ts";

/** Reads at a time: those who follow leave connections to those who ask. */
const READS_AT_ONCE = 3;
/** How long a read waits for others. */
const WAIT_MS = 10_000;
const RETRY_MS = 500;
/** Who missed changes of more services than these begins whole. */
const MAX_MISSED = 100;
/** An event id: the environment, and the mark up to which it was read. */
const EVENT_ID = /^([0-9a-z]{26})-(\d{1,15})-(\d{1,12})$/;

/** An environment that streams follow, with what its services show. */
type Environment = {
  id: string;
  set: FollowedSet<EnvironmentEvent>;
  services: Map<string, SetEvent>;
  mark: Mark | undefined;
  followers: number;
  /** Resolves once it was read. */
  ready: PromiseWithResolvers<void>;
  reading: boolean;
  stale: boolean;
};

type Following = { set: FollowedSet<EnvironmentEvent>; start: Start; close: () => void };

export type FollowedEnvironments = ReturnType<typeof createFollowedEnvironments>;

/**
 * The environments that streams of this process follow. What changed of one is read when a trigger says that some process
 * changed it: once, however many streams follow it.
 */
export function createFollowedEnvironments(deps: {
  pool: Pool;
  changes: Pick<ChangeFeed, "watch">;
  log: Logger;
}) {
  const { pool, changes, log } = deps;
  const environments = new Map<string, Environment>();
  const lanes = createLanes(READS_AT_ONCE, WAIT_MS);
  const missed = startTask(FIND_MISSED_CHANGES, findMissed, { log });
  const unwatch = changes.watch((id) => {
    const environment = id === undefined ? undefined : environments.get(id);
    if (environment) void refresh(environment);
    else if (id === undefined) missed.wake();
  });

  async function findMissed(): Promise<void> {
    await pruneChanges(pool);
    const read = [...environments.values()].flatMap(({ id, mark }) => (mark ? [{ id, xid: mark.xid }] : []));
    for (const { id, stale, xid, at } of read.length > 0 ? await compareEnvironments(pool, read) : []) {
      const environment = environments.get(id);
      if (!environment?.mark) continue;
      if (stale) void refresh(environment);
      // A stream may resume from where nothing happens.
      else if (xid >= environment.mark.xid) environment.mark = { xid, at };
    }
  }

  /** Reads an environment until nothing says that it changed meanwhile. */
  async function refresh(environment: Environment): Promise<void> {
    environment.stale = true;
    if (environment.reading) return;
    environment.reading = true;
    while (environment.stale && environment.followers > 0) {
      environment.stale = false;
      const failure = await read(environment).catch((error: unknown) => error ?? true);
      if (!failure) continue;
      environment.stale = true;
      log.debug(
        { err: failure, environmentId: environment.id },
        "an environment that is followed cannot be read",
      );
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS).unref());
    }
    environment.reading = false;
  }

  async function read(environment: Environment): Promise<void> {
    const leave = await lanes.enter();
    try {
      const rows = await readEnvironment(pool, environment.id, environment.mark);
      const { xid, at, alive } = rows[0]!;
      if (!alive) return end(environment, notFound("environment"));
      const changed = new Set<string>();
      for (const row of rows) {
        const id = row.serviceId;
        if (id === null) continue;
        const before = environment.services.get(id);
        const after = row.id === null ? undefined : toSetEvent(row);
        if (after) environment.services.set(id, after);
        else environment.services.delete(id);
        if (!isSame(before, after)) changed.add(id);
      }
      environment.mark = { xid, at };
      if (changed.size > 0) environment.set.commit(changed);
      environment.ready.resolve();
    } finally {
      leave();
    }
  }

  function end(environment: Environment, error: Error): void {
    environment.ready.reject(error);
    environment.set.end(error);
  }

  function open(id: string): Environment {
    const known = environments.get(id);
    if (known) return known;
    const made: Environment = {
      id,
      set: new FollowedSet<EnvironmentEvent>({
        revision: () => `${id.slice(4)}-${made.mark?.xid ?? 0}-${made.mark?.at ?? 0}`,
        keys: () => [...made.services.keys()].sort(),
        render: (key) => made.services.get(key),
      }),
      services: new Map(),
      mark: undefined,
      followers: 0,
      ready: Promise.withResolvers<void>(),
      reading: false,
      stale: false,
    };
    made.ready.promise.catch(() => {});
    environments.set(id, made);
    return made;
  }

  function close(environment: Environment): void {
    environment.followers--;
    if (environment.followers === 0) environments.delete(environment.id);
  }

  async function startAfter({ id, set, mark, services }: Environment, eventId = ""): Promise<Start> {
    const { seq } = set;
    const whole: Start = { seq, changed: undefined };
    const [, own, xid, at] = EVENT_ID.exec(eventId) ?? [];
    // A mark from the future is of a database before it was restored.
    if (own !== id.slice(4) || !mark || Number(xid) > mark.xid) return whole;
    const ids = await listChanged(pool, id, { xid: Number(xid), at: Number(at) }, MAX_MISSED + 1);
    if (!ids || ids.length > MAX_MISSED) return whole;
    const changed = new Set(ids);
    const isAll = changed.size > 0 && services.keys().every((key) => changed.has(key));
    return isAll ? whole : { seq, changed };
  }

  return {
    /** Follows an environment that exists from an event id. Throws 404 when it is deleted, and 503 while it cannot be read. */
    async follow(id: string, eventId: string | undefined, signal: AbortSignal): Promise<Following> {
      const environment = open(id);
      environment.followers++;
      let closed = false;
      const closeOnce = () => {
        if (!closed) close(environment);
        closed = true;
      };
      try {
        if (!environment.mark) void refresh(environment);
        await orUnavailable(environment.ready.promise, signal);
        const start = await startAfter(environment, eventId);
        return { set: environment.set, start, close: closeOnce };
      } catch (error) {
        closeOnce();
        throw error;
      }
    },

    async stop(): Promise<void> {
      unwatch();
      await missed.stop();
    },
  };
}

function isSame(one: SetEvent | undefined, other: SetEvent | undefined): boolean {
  if (!one || !other) return one === other;
  return equals(ServiceStateSchema, one.event.value, other.event.value);
}
