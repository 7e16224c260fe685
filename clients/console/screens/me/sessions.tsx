import { useMutation } from "@tanstack/react-query";
import type { ActiveSession } from "../../../typescript/src/index.ts";
import { Confirm } from "../../design/confirm.tsx";
import { More } from "../../design/more.tsx";
import { Rows } from "../../design/rows.tsx";
import { Ago, Failure, Loading } from "../../design/state.tsx";
import { Table } from "../../design/table.tsx";
import { MeTabs } from "../../design/tabs.tsx";
import { usePages } from "../../live/pages.ts";
import { queries } from "../../live/queries.ts";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";

const KEY = ["sessions"];

/** Where the user is signed in. */
export function Sessions() {
  const pages = usePages({
    queryKey: KEY,
    read: (cursor) => berth.sessions.list({ limit: 50 }).page(cursor),
  });
  if (pages.isPending) return <Loading />;
  if (!pages.data) return <Failure isScreen error={pages.error} retry={() => void pages.refetch()} />;
  const sessions = pages.data;
  const { title, hint, from, since, used } = texts.sessions;
  return (
    <>
      <title>{`${title} – ${texts.name}`}</title>
      <MeTabs />
      <h1>{title}</h1>
      <p className="hint">{hint}</p>
      <Table caption={title} columns={[from, since, used, texts.service.actions]}>
        <Rows
          items={sessions}
          keyOf={({ id }) => id}
          rowHeight={44}
          columns={4}
          row={(session) => <Cells session={session} />}
        />
      </Table>
      <More pages={pages} />
    </>
  );
}

function Cells({ session: { id, current, ip, createdAt, lastUsedAt } }: { session: ActiveSession }) {
  const end = useMutation({
    mutationFn: () => berth.sessions.end(id),
    onSettled: () => queries.invalidateQueries({ queryKey: KEY }),
  });
  const from = ip ?? texts.sessions.unknown;
  return (
    <>
      <th scope="row">
        {from} {current && <span className="hint">{texts.sessions.current}</span>}
      </th>
      <td>
        <Ago time={createdAt} />
      </td>
      <td>
        <Ago time={lastUsedAt} />
      </td>
      <td>
        {!current && (
          <Confirm
            text={texts.sessions.end}
            about={from}
            sentence={texts.sessions.endHint}
            action={{ ...end, mutate: () => end.mutate() }}
          />
        )}
      </td>
    </>
  );
}
