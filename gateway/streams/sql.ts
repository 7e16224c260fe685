import { type Db, execute, one } from "../../services/kit/postgres/db.ts";

export type Place = { who: string; holder: string };

/** Takes a free place of a caller for `leaseMs`; `false` also when another was quicker for the same place. */
export async function takePlace(db: Db, { who, holder }: Place, limit: number, leaseMs: number) {
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

/** How many streams of a caller hold a place now. */
export async function heldPlaces(db: Db, who: string): Promise<number> {
  const row = await one<{ held: number }>(
    db,
    "stream_places_held",
    "select count(*)::int as held from streams where who = $1 and held_until > now()",
    [who],
  );
  return row!.held;
}

/** Holds places for `leaseMs` from now on. */
export function holdPlaces(db: Db, places: Place[], leaseMs: number): Promise<number> {
  // Sorted, so that two gateways lock rows in the same order.
  const sorted = places.toSorted((a, b) => (a.who < b.who ? -1 : 1));
  return execute(
    db,
    "stream_places_hold",
    `update streams s set held_until = now() + make_interval(secs => $3::float8 / 1000)
     from unnest($1::text[], $2::text[]) as held (who, holder)
     where s.who = held.who and s.holder = held.holder`,
    [sorted.map(({ who }) => who), sorted.map(({ holder }) => holder), leaseMs],
  );
}

export function freePlace(db: Db, { who, holder }: Place): Promise<number> {
  return execute(db, "stream_place_free", "delete from streams where who = $1 and holder = $2", [
    who,
    holder,
  ]);
}

/** Removes places whose holders died. */
export function sweepPlaces(db: Db): Promise<number> {
  return execute(db, "stream_places_sweep", "delete from streams where held_until < now()");
}
