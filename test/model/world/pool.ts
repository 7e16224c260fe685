import { showValues } from "../trace.ts";
import { Blocked, DatabaseError, Session } from "./database.ts";
import type { Process } from "./process.ts";
import type { World } from "./world.ts";

/** Returns a stand-in of pg.Pool for one process: each statement and each commit is a step of the schedule. */
export function createSimulatedPool(world: World, process: Process) {
  const lost = () => new DatabaseError("57P01", "the connection was terminated");
  const statement = (session: Session, name: string, values: unknown[] = [], alone = false) => {
    const run = session.statement(name, values);
    const effect = () => {
      try {
        const result = run();
        if (alone) world.commit(session);
        return result;
      } catch (error) {
        if (!(error instanceof Blocked)) session.abort();
        throw error;
      }
    };
    return world.operations.run(process, world.trace ? `${name} ${showValues(values)}` : name, effect, () => {
      session.abort();
      return lost();
    });
  };
  const begin = () => {
    for (const session of process.sessions) if (session.state !== "open") process.sessions.delete(session);
    const session = new Session(world.db);
    process.sessions.add(session);
    return session;
  };
  return {
    // There is always another connection.
    lanes: { enter: () => () => {} },
    query: ({ name, values }: { name: string; values: unknown[] }) => statement(begin(), name, values, true),
    connect: async () => {
      let session: Session | undefined;
      let last: Promise<unknown> = Promise.resolve();
      const run = async (text: string | { name: string; values: unknown[] }) => {
        if (typeof text !== "string") return statement(session!, text.name, text.values);
        if (text === "begin") session = begin();
        if (text === "rollback") session!.abort();
        if (text !== "commit") return { rows: [], rowCount: 0 };
        return world.operations.run(
          process,
          "commit",
          () => world.commit(session!),
          () => {
            session!.abort();
            return lost();
          },
        );
      };
      // As on a connection: one statement after the other, also those that nobody waits for.
      const query = (text: Parameters<typeof run>[0]) => {
        const result = last.then(() => run(text));
        last = result.catch(() => {});
        return result;
      };
      return { query, release: () => {} };
    },
  };
}
