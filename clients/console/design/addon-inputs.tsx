import type { AddonCapabilities, CreateServiceRequest } from "../../typescript/src/index.ts";
import { texts } from "../texts.ts";
import { Field, Input } from "./form.tsx";

/** The largest volume that the API takes. */
export const MOST_GIB = 65_536;

type AddonInputsProps = {
  /** Of an addon of the type; undefined while none is known. */
  capabilities: AddonCapabilities | undefined;
  /** What the storage is when none is named. */
  storageHint: string;
};

/** The version and the storage of a new addon, where there is anything to choose. */
export function AddonInputs({ capabilities, storageHint }: AddonInputsProps) {
  const { version, usualVersion, versionHint, storage } = texts.addons;
  const versions = capabilities?.versions ?? [];
  return (
    <>
      {versions.length > 1 && (
        <Field label={version} hint={versionHint}>
          {(id, hint) => (
            <select id={id} aria-describedby={hint} name="version">
              <option value="">{usualVersion}</option>
              {versions.map((each) => (
                <option key={each}>{each}</option>
              ))}
            </select>
          )}
        </Field>
      )}
      {capabilities?.storage && (
        <Input label={storage} hint={storageHint} name="storageGib" type="number" min={1} max={MOST_GIB} />
      )}
    </>
  );
}

/** Returns what was chosen, as a part of the request; nothing where nothing was. */
export function addonConfigOf(fields: FormData): Pick<CreateServiceRequest, "config"> {
  const version = String(fields.get("version") ?? "");
  const storage = String(fields.get("storageGib") ?? "");
  const config = { ...(version && { version }), ...(storage && { storageGib: Number(storage) }) };
  return Object.keys(config).length > 0 ? { config } : {};
}
