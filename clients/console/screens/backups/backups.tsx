import { useMutation, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import type { Backup, Service, ServiceAddress } from "../../../typescript/src/index.ts";
import { Confirm } from "../../design/confirm.tsx";
import { Alert } from "../../design/form.tsx";
import { exactly, lasting, sized } from "../../design/format.ts";
import { More } from "../../design/more.tsx";
import { Rows } from "../../design/rows.tsx";
import { Ago, Empty, Failure, Loading, Status } from "../../design/state.tsx";
import { Table } from "../../design/table.tsx";
import { useServiceState } from "../../live/environment.tsx";
import { usePages } from "../../live/pages.ts";
import { queries } from "../../live/queries.ts";
import { useMayEdit, useServiceAddress } from "../../session/address.ts";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";
import { DownloadBackup } from "./download-backup.tsx";
import { ForkDialog } from "./fork-dialog.tsx";
import { RestoreDialog } from "./restore-dialog.tsx";
import { UploadDump } from "./upload-dump.tsx";

type Of = Pick<ServiceAddress, "environmentId" | "service">;

const keysOf = ({ environmentId, service }: Of) => ({
  backups: ["backups", environmentId, service],
  service: ["service", environmentId, service],
});

/** Reads the backups and what is known of the last restore again. */
function lookAgain(at: Of): void {
  for (const queryKey of Object.values(keysOf(at))) void queries.invalidateQueries({ queryKey });
}

/**
 * The backups of an addon, the newest first, and how the last restore went. They are read again when the environment's
 * stream says that they changed.
 */
export function Backups() {
  const at = useServiceAddress();
  const mayEdit = useMayEdit();
  const keys = keysOf(at);
  const revision = useServiceState(at.service)?.backupsRevision;
  useEffect(() => {
    if (revision !== undefined) lookAgain({ environmentId: at.environmentId, service: at.service });
  }, [revision, at.environmentId, at.service]);
  const addon = useQuery({ queryKey: keys.service, queryFn: () => berth.services.get(at), staleTime: 0 });
  const pages = usePages({
    queryKey: keys.backups,
    read: (cursor) => berth.backups.list(at, { limit: 50 }).page(cursor),
    staleTime: 0,
  });
  if (addon.isPending || pages.isPending) return <Loading />;
  if (!addon.data || !pages.data)
    return <Failure error={addon.error ?? pages.error} retry={() => lookAgain(at)} />;
  const all = pages.data;
  const { name, capabilities, backups } = addon.data;
  const { empty, emptyHint, notHere, columns } = texts.backups;
  const isPossible = capabilities?.backups ?? true;
  return (
    <>
      {isPossible ? (
        mayEdit && <Actions at={at} addon={addon.data} />
      ) : (
        <Empty title={notHere}>
          <p>{capabilities?.backupsReason}</p>
        </Empty>
      )}
      {backups?.archiveFailure && <p className="note">{backups.archiveFailure}</p>}
      {backups?.restore && <LastRestore restore={backups.restore} />}
      {isPossible && all.length === 0 && (
        <Empty title={empty}>
          <p>{emptyHint}</p>
          <p className="hint">
            {texts.home.cli} <code>berth backups create {name}</code>
          </p>
        </Empty>
      )}
      {all.length > 0 && (
        <Table caption={texts.service.tabs.backups} columns={columns}>
          <Rows
            items={all}
            keyOf={({ id }) => id}
            rowHeight={52}
            columns={columns.length}
            row={(backup) => (
              <Cells at={at} addon={addon.data} backup={backup} mayRestore={mayEdit && isPossible} />
            )}
          />
        </Table>
      )}
      <More pages={pages} />
      <Alert error={addon.error} />
    </>
  );
}

const typeOf = ({ type }: Service) => (type === "redis" ? "redis" : "postgres");

function Actions({ at, addon }: { at: ServiceAddress; addon: Service }) {
  // With the oldest moment of when it was opened: a service is shown without it while the cluster does not answer.
  const [open, setOpen] = useState<{ dialog: "restore" | "fork"; oldest: string }>();
  const [isUploading, setIsUploading] = useState(false);
  const { id, name, capabilities, backups } = addon;
  const oldest = capabilities?.pointInTime ? backups?.oldestRestorableAt : undefined;
  const { openUpload, restoreMoment, forkMoment, forkTitle } = texts.backups;
  const create = useMutation({
    mutationFn: () => berth.backups.create(at),
    onSettled: () => lookAgain(at),
  });
  return (
    <>
      <p className="actions">
        <button
          type="button"
          className="main"
          aria-disabled={create.isPending}
          onClick={() => create.isPending || create.mutate()}
        >
          {texts.backups.create}
        </button>
        <button type="button" onClick={() => setIsUploading(true)}>
          {openUpload}
        </button>
        {oldest && (
          <>
            <button type="button" onClick={() => setOpen({ dialog: "restore", oldest })}>
              {restoreMoment}
            </button>
            <button type="button" onClick={() => setOpen({ dialog: "fork", oldest })}>
              {forkMoment}
            </button>
          </>
        )}
      </p>
      <Alert error={create.error} />
      {isUploading && (
        <UploadDump
          at={at}
          name={name}
          type={typeOf(addon)}
          onUpload={() => lookAgain(at)}
          onClose={() => setIsUploading(false)}
        />
      )}
      {open?.dialog === "restore" && (
        <RestoreDialog
          at={at}
          name={name}
          from={{ oldest: open.oldest }}
          onRestore={() => lookAgain(at)}
          onClose={() => setOpen(undefined)}
        />
      )}
      {open?.dialog === "fork" && (
        <ForkDialog
          title={forkTitle(name)}
          accountId={at.accountId}
          from={{ service: id }}
          oldest={open.oldest}
          type={typeOf(addon)}
          {...(capabilities && { capabilities })}
          name={`${name}-2`}
          environmentId={at.environmentId}
          onClose={() => setOpen(undefined)}
        />
      )}
    </>
  );
}

type Restore = NonNullable<NonNullable<Service["backups"]>["restore"]>;

function LastRestore({ restore: { backup, status, startedAt, failure } }: { restore: Restore }) {
  return (
    <p className="note">
      {texts.backups.restored} <code>{backup}</code> <Status status={status} /> <Ago time={startedAt} />
      {failure && (
        <>
          {" "}
          {failure} {texts.backups.kept}
        </>
      )}
    </p>
  );
}

type CellsProps = {
  at: ServiceAddress;
  addon: Service;
  backup: Backup;
  mayRestore: boolean;
};

function Cells({ at, addon, backup, mayRestore }: CellsProps) {
  const { name, capabilities } = addon;
  const mayEdit = useMayEdit();
  const [isRestoring, setIsRestoring] = useState(false);
  const [isForking, setIsForking] = useState(false);
  const { id, serviceId, status, trigger, startedAt, finishedAt, sizeBytes, version, failure } = backup;
  const { provedAt, proofFailure, at: moment } = backup;
  const remove = useMutation({
    mutationFn: () => berth.backups.delete(at, id),
    onSettled: () => lookAgain(at),
  });
  const { triggers, restore, fork, forkTitle, deleteHint } = texts.backups;
  return (
    <>
      <th scope="row">
        <code>{id}</code>
      </th>
      <td>
        <Status status={status} /> {failure && <span className="hint bad">{failure}</span>}
      </td>
      <td>{triggers[trigger]}</td>
      <td>
        <Ago time={startedAt} />{" "}
        {moment && <span className="hint">{texts.backups.asOf(exactly(moment))}</span>}
      </td>
      <td className="number">{finishedAt && lasting(Date.parse(finishedAt) - Date.parse(startedAt))}</td>
      <td className="number">{sizeBytes !== undefined && sized(sizeBytes)}</td>
      <td>{version}</td>
      <td>
        {proofFailure ? (
          <span className="hint bad">
            {texts.backups.unproved} {proofFailure}
          </span>
        ) : (
          provedAt && <Ago time={provedAt} />
        )}
      </td>
      <td>
        {mayRestore && status === "succeeded" && (
          <>
            <button type="button" className="quiet" onClick={() => setIsRestoring(true)}>
              {restore}
              <span className="unseen"> {id}</span>
            </button>{" "}
            <button type="button" className="quiet" onClick={() => setIsForking(true)}>
              {fork}
              <span className="unseen"> {id}</span>
            </button>{" "}
            <DownloadBackup id={id} sign={() => berth.backups.download(at, id)} />
          </>
        )}{" "}
        {mayEdit && status !== "running" && (
          <Confirm
            text={texts.delete}
            about={id}
            sentence={deleteHint(exactly(moment ?? startedAt))}
            action={{ ...remove, mutate: () => remove.mutate() }}
          />
        )}
        {isForking && (
          <ForkDialog
            title={forkTitle(name)}
            accountId={at.accountId}
            from={{ service: serviceId, backup: id }}
            type={typeOf(addon)}
            {...(capabilities && { capabilities })}
            name={`${name}-2`}
            environmentId={at.environmentId}
            onClose={() => setIsForking(false)}
          />
        )}
        {isRestoring && (
          <RestoreDialog
            at={at}
            name={name}
            from={{ backup }}
            onRestore={() => lookAgain(at)}
            onClose={() => setIsRestoring(false)}
          />
        )}
      </td>
    </>
  );
}
