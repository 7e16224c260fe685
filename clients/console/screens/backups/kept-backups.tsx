import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import type { KeptBackup } from "../../../typescript/src/index.ts";
import { Confirm } from "../../design/confirm.tsx";
import { exactly, sized } from "../../design/format.ts";
import { More } from "../../design/more.tsx";
import { Rows } from "../../design/rows.tsx";
import { Ago, Empty, Failure, Loading } from "../../design/state.tsx";
import { Table } from "../../design/table.tsx";
import { usePages } from "../../live/pages.ts";
import { queries } from "../../live/queries.ts";
import { useAccount, useAccountAddress, useMayEdit } from "../../session/address.ts";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";
import { DownloadBackup } from "./download-backup.tsx";
import { ForkDialog } from "./fork-dialog.tsx";

const keyOf = (accountId: string) => ["kept-backups", accountId];

/** The backups that an account keeps of deleted addons, the newest first. */
export function KeptBackups() {
  const at = useAccountAddress();
  const pages = usePages({
    queryKey: keyOf(at.accountId),
    read: (cursor) => berth.keptBackups.list(at, { limit: 50 }).page(cursor),
    staleTime: 0,
  });
  if (pages.isPending) return <Loading />;
  if (!pages.data) return <Failure isScreen error={pages.error} retry={() => void pages.refetch()} />;
  const all = pages.data;
  const { title, hint, empty, columns } = texts.keptBackups;
  return (
    <>
      <title>{`${title} – ${texts.name}`}</title>
      <h1>{title}</h1>
      <p className="hint">{hint}</p>
      {all.length === 0 ? (
        <Empty title={empty}>
          <p className="hint">
            {texts.home.cli} <code>berth backups</code>
          </p>
        </Empty>
      ) : (
        <Table caption={title} columns={columns}>
          <Rows
            items={all}
            keyOf={({ id }) => id}
            rowHeight={52}
            columns={columns.length}
            row={(backup) => <Cells backup={backup} />}
          />
        </Table>
      )}
      <More pages={pages} />
    </>
  );
}

function Cells({ backup }: { backup: KeptBackup }) {
  const { id, serviceName, environmentName, projectName, type, startedAt, sizeBytes, keptUntil } = backup;
  const time = backup.at ?? startedAt;
  const at = useAccountAddress();
  const mayEdit = useMayEdit();
  const isOwner = useAccount()?.myRole === "owner";
  const [isRecovering, setIsRecovering] = useState(false);
  const remove = useMutation({
    mutationFn: () => berth.keptBackups.delete(at, id),
    onSettled: () => queries.invalidateQueries({ queryKey: keyOf(at.accountId) }),
  });
  const { recover, recoverTitle } = texts.keptBackups;
  return (
    <>
      <th scope="row">{serviceName}</th>
      <td>{texts.types[type]}</td>
      <td>
        {projectName} / {environmentName}
      </td>
      <td>
        <Ago time={time} />
      </td>
      <td className="number">{sized(sizeBytes)}</td>
      <td>{exactly(keptUntil)}</td>
      <td>
        {mayEdit && (
          <>
            <button type="button" className="quiet" onClick={() => setIsRecovering(true)}>
              {recover}
              <span className="unseen"> {id}</span>
            </button>{" "}
            <DownloadBackup id={id} sign={() => berth.keptBackups.download(at, id)} />
          </>
        )}{" "}
        {isOwner && (
          <Confirm
            text={texts.delete}
            about={id}
            sentence={texts.backups.deleteHint(exactly(time))}
            action={{ ...remove, mutate: () => remove.mutate() }}
          />
        )}
        {isRecovering && (
          <ForkDialog
            title={recoverTitle(serviceName)}
            accountId={at.accountId}
            from={{ backup: id }}
            type={type}
            name={serviceName}
            onClose={() => setIsRecovering(false)}
          />
        )}
      </td>
    </>
  );
}
