import { useQuery } from "@tanstack/react-query";
import type { ServiceAddress, ServiceState } from "../../../typescript/src/index.ts";
import { Alert } from "../../design/form.tsx";
import { sized } from "../../design/format.ts";
import { useMayEdit } from "../../session/address.ts";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";
import { Statistics } from "./statistics.tsx";

/** What the server of an addon is, as far as the installation knows it. It is read again when the addon's status changes. */
export function Addon({ at, state: { status } }: { at: ServiceAddress; state: ServiceState }) {
  const addon = useQuery({
    queryKey: ["service", at.environmentId, at.service, status],
    queryFn: () => berth.services.get(at),
    staleTime: 0,
  });
  const mayEdit = useMayEdit();
  const { version, storageBytes } = addon.data?.server ?? {};
  const { none, connect, version: versionLabel, volume } = texts.addons;
  return (
    <>
      {(version ?? storageBytes) !== undefined && (
        <dl className="facts narrow">
          {version !== undefined && (
            <>
              <dt>{versionLabel}</dt>
              <dd>{version}</dd>
            </>
          )}
          {storageBytes !== undefined && (
            <>
              <dt>{volume}</dt>
              <dd>{sized(storageBytes)}</dd>
            </>
          )}
        </dl>
      )}
      <Alert error={addon.error} />
      <p className="hint">{none}</p>
      <p className="hint">
        {connect} <code>berth addons connect {at.service}</code>
      </p>
      {mayEdit && status === "running" && <Statistics at={at} />}
    </>
  );
}
