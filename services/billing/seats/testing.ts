import { timestampNow } from "@bufbuild/protobuf/wkt";
import { MemberAddedSchema, MemberRemovedSchema } from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import { newId } from "../../kit/ids.ts";
import type { TestBilling } from "../testing.ts";

/** Sets how many members an account has, and reports it as identity does. */
export async function setMembers(billing: TestBilling, accountId: string, members: number): Promise<void> {
  const account = billing.neighbours.accounts.get(accountId)!;
  const [owner] = account.members;
  const added = members > account.members.length;
  account.members = Array.from(
    { length: members },
    (_, n) => account.members[n] ?? { ...owner!, role: "reader" },
  );
  await reportMember(billing, accountId, added);
}

/** Reports that somebody was added or removed. */
export function reportMember(billing: TestBilling, accountId: string, added: boolean): Promise<void> {
  const about = { accountId, userId: newId("usr"), at: timestampNow() };
  return added
    ? billing.publish("identity", MemberAddedSchema, accountId, { ...about, role: "reader" })
    : billing.publish("identity", MemberRemovedSchema, accountId, about);
}
