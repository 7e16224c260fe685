import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { type Db, one } from "../../../kit/postgres/db.ts";
import type { AddonEngine, AddonType } from "../../terms/services.ts";

type VolumeRow = {
  accountId: string;
  environmentId: string;
  type: AddonType;
  engine: AddonEngine | null;
  storageGib: number | null;
  storageMaxGib: number | null;
  /** No more is to be said of it for now. */
  quiet: boolean;
};

/** Returns what is known of the volume of an addon that is ready. */
export function findVolume(db: Db, serviceId: string) {
  return one<VolumeRow>(
    db,
    "addon_volume",
    `select account_id as "accountId", environment_id as "environmentId", type, addon_engine as engine,
       (config -> 'storageGib')::int as "storageGib", (config -> 'storageMaxGib')::int as "storageMaxGib",
       coalesce(addon_filling_quiet_until > now(), false) as quiet
     from services where id = $1 and addon_state = 'ready' and deleting_at is null`,
    [serviceId],
  );
}

/**
 * Requests that the volume of an addon has `to` GiB, which its configuration still allows, and had `before` in it; undefined
 * otherwise. No more is said of it while it grows.
 */
export function growVolume(db: Db, serviceId: string, before: number | null, to: number) {
  return one<{ name: string; at: Timestamp }>(
    db,
    "addon_volume_grow",
    `update services set config = config || jsonb_build_object('storageGib', $3::int),
       addon_filling_quiet_until = now() + interval '1 hour'
     where id = $1 and addon_state = 'ready' and deleting_at is null
       and (config -> 'storageGib')::int is not distinct from $2 and (config -> 'storageMaxGib')::int >= $3
     returning name, now() as at`,
    [serviceId, before, to],
  );
}

/** Records that users are told of the volume of an addon; undefined where they were within the last day. */
export function quieten(db: Db, serviceId: string) {
  return one<{ at: Timestamp }>(
    db,
    "addon_volume_quieten",
    `update services set addon_filling_quiet_until = now() + interval '1 day'
     where id = $1 and addon_state = 'ready' and deleting_at is null
       and coalesce(addon_filling_quiet_until <= now(), true)
     returning now() as at`,
    [serviceId],
  );
}
