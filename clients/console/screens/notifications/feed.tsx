import { useMutation } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import type { Notification } from "../../../typescript/src/index.ts";
import { Alert } from "../../design/form.tsx";
import { More } from "../../design/more.tsx";
import { Ago, Empty, Failure, Loading } from "../../design/state.tsx";
import { FEED, UNREAD } from "../../live/feed.ts";
import { usePages } from "../../live/pages.ts";
import { queries } from "../../live/queries.ts";
import { useMe } from "../../session/address.ts";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";
import { targetOf } from "./target.ts";

const refresh = () => {
  void queries.invalidateQueries({ queryKey: FEED });
  void queries.invalidateQueries({ queryKey: UNREAD });
};

/** What the user was notified of, newest first. Each leads to what it is about, and is read by that. */
export function Feed() {
  const { unread = false } = useSearch({ strict: false }) as { unread?: boolean };
  const pages = usePages({
    queryKey: [...FEED, unread],
    read: (cursor) => berth.notifications.list({ limit: 50, ...(unread && { unread }) }).page(cursor),
  });
  const readAll = useMutation({ mutationFn: () => berth.notifications.markAllRead(), onSettled: refresh });
  const { notifications } = texts;
  const shown = pages.data;
  return (
    <>
      <title>{`${notifications.title} – ${texts.name}`}</title>
      <div className="head">
        <h1>{notifications.title}</h1>
        <button type="button" aria-disabled={readAll.isPending} onClick={() => readAll.mutate()}>
          {notifications.readAll}
        </button>
        <Link to="/me/notification-prefs">{notifications.preferences}</Link>
      </div>
      <nav className="tabs" aria-label={notifications.which}>
        <Link to="/notifications" activeOptions={{ exact: true, includeSearch: true }}>
          {notifications.all}
        </Link>
        <Link to="/notifications" search={{ unread: true }}>
          {notifications.onlyUnread}
        </Link>
      </nav>
      <Alert error={readAll.error} />
      {pages.isPending && <Loading />}
      {!pages.data && pages.error && <Failure error={pages.error} retry={() => void pages.refetch()} />}
      {shown?.length === 0 && (
        <Empty title={unread ? notifications.allRead : notifications.empty}>
          {!unread && <p>{notifications.emptyHint}</p>}
        </Empty>
      )}
      {shown && shown.length > 0 && (
        <ul className="feed">
          {shown.map((one) => (
            <Entry key={one.id} notification={one} />
          ))}
        </ul>
      )}
      <More pages={pages} />
    </>
  );
}

function Entry({ notification }: { notification: Notification }) {
  const { id, accountId, title, body, readAt, createdAt } = notification;
  const handle = useMe().accounts.find((account) => account.id === accountId)?.handle;
  const read = useMutation({ mutationFn: () => berth.notifications.markRead(id), onSettled: refresh });
  const target = targetOf(notification);
  return (
    <li className={readAt ? undefined : "unread"}>
      <h2>
        {!readAt && (
          <>
            <span aria-hidden="true">●</span> <span className="unseen">{texts.notifications.unread}: </span>
          </>
        )}
        {target ? (
          <Link to={target as "/"} onClick={() => readAt || read.mutate()}>
            {title}
          </Link>
        ) : (
          title
        )}
      </h2>
      <p>{body}</p>
      <p className="hint">
        {handle && `${handle} · `}
        <Ago time={createdAt} />
        {!readAt && (
          <>
            {" · "}
            <button type="button" className="quiet" onClick={() => read.mutate()}>
              {texts.notifications.read}
              <span className="unseen"> {title}</span>
            </button>
          </>
        )}
      </p>
      <Alert error={read.error} />
    </li>
  );
}
