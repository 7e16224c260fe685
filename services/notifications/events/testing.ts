import type { DescMessage, MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { newId } from "../../kit/ids.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { startNotifications, type TestNotifications } from "../testing.ts";

type From = Parameters<TestNotifications["publish"]>[0];

export type Received = {
  to: string;
  kind: string;
  title: string;
  body: string;
  metadata: Record<string, string>;
  mailState: string;
};

/** Returns the time of an event, in minutes after a fixed time. */
export const at = (minute: number) => timestampFromMs(Date.UTC(2026, 10, 20, 8, minute));

/** Returns who received which kinds. */
export const summaryOf = (received: Received[]) => received.map(({ to, kind }) => `${to} ${kind}`).sort();

/** Starts notifications with an account of four members, of which `actor` is called Ada. */
export async function startWithMembers() {
  const service = await startNotifications();
  const [reader, editor, owner] = [service.user(), service.user(), service.user()];
  const actor = service.user({ displayName: "Ada" });
  const people = { reader, editor, owner, actor };
  const names = new Map(Object.entries(people).map(([name, { userId }]) => [userId, name]));
  const accountId = service.account(
    [reader, "reader"],
    [editor, "editor"],
    [owner, "owner"],
    [actor, "owner"],
  );

  async function handled(): Promise<void> {
    await eventually("all events are handled", async () => {
      const consumers = ["identity", "deployer", "variables", "billing"].map(
        (from) => `notifications-${from}`,
      );
      const infos = await Promise.all(consumers.map((name) => service.manager.consumers.info("BERTH", name)));
      return infos.every(({ num_pending, num_ack_pending }) => num_pending + num_ack_pending === 0);
    });
  }

  /** Publishes an event as its relay does, then a duplicate, then an equal one. Returns what was received by whom. */
  async function publish<S extends DescMessage>(
    from: From,
    schema: S,
    event: MessageInitShape<S>,
  ): Promise<[Received, ...Received[]]> {
    const { rows: before } = await service.pool.query("select id from notifications");
    const eventId = newId("evt");
    await service.publish(from, schema, accountId, event, eventId);
    await service.publish(from, schema, accountId, event, eventId);
    await service.publish(from, schema, accountId, event);
    await handled();
    const text = `select user_id as "to", kind, title, body, metadata, mail_state as "mailState" from notifications
      where id <> all($1) order by id`;
    const { rows } = await service.pool.query(text, [before.map(({ id }) => id)]);
    return rows.map((row) => ({ ...row, to: names.get(row.to) ?? row.to })) as [Received, ...Received[]];
  }

  return { service, people, accountId, publish };
}
