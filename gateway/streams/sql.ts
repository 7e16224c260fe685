import { type Db, execute, one } from "../../services/kit/postgres/db.ts";

/** A stream that counts against the limit of `who`; `holder` is its own id. */
export type Slot = { who: string; holder: string };

/** Claims a free slot of a caller for `leaseMs`. Returns false if there is none or another stream claimed it first. */
export async function claimSlot(db: Db, { who, holder }: Slot, limit: number, leaseMs: number) {
  const taken = await execute(
    db,
    "stream_place_take",
    `insert into streams as s (who, place, holder, held_until)
     select $1, place, $2, now() + make_interval(secs => $4::float8 / 1000)
     from generate_series(0, $3::int - 1) place
     where not exists (select from streams h where h.who = $1 and h.place = place.place and h.held_until > now())
     order by place limit 1
     on conflict (who, place) do update set holder = excluded.holder, held_until = excluded.held_until
     where s.held_until <= now()`,
    [who, holder, limit, leaseMs],
  );
  return taken === 1;
}

/** Returns how many slots of a caller are held now. */
export async function countSlots(db: Db, who: string): Promise<number> {
  const row = await one<{ held: number }>(
    db,
    "stream_places_held",
    "select count(*)::int as held from streams where who = $1 and held_until > now()",
    [who],
  );
  return row!.held;
}

/** Extends slots by `leaseMs` from now. */
export function renewSlots(db: Db, slots: Slot[], leaseMs: number): Promise<number> {
  // Sorted, so that two gateways lock rows in the same order.
  const sorted = slots.toSorted((a, b) => (a.who < b.who ? -1 : 1));
  return execute(
    db,
    "stream_places_hold",
    `update streams s set held_until = now() + make_interval(secs => $3::float8 / 1000)
     from unnest($1::text[], $2::text[]) as held (who, holder)
     where s.who = held.who and s.holder = held.holder`,
    [sorted.map(({ who }) => who), sorted.map(({ holder }) => holder), leaseMs],
  );
}

export function releaseSlot(db: Db, { who, holder }: Slot): Promise<number> {
  return execute(db, "stream_place_free", "delete from streams where who = $1 and holder = $2", [
    who,
    holder,
  ]);
}

/** Deletes slots whose lease has ended. */
export function deleteExpiredSlots(db: Db): Promise<number> {
  return execute(db, "stream_places_sweep", "delete from streams where held_until < now()");
}
