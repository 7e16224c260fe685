import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { UNREAD, useFeed } from "../../live/feed.ts";
import { useMe } from "../../session/address.ts";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";

/** Leads to the notifications, and says how many are unread as they arrive and are read. */
export function Bell() {
  const isLost = useFeed(useMe().id);
  const unread = useQuery({ queryKey: UNREAD, queryFn: () => berth.notifications.countUnread() });
  const count = unread.data?.count ?? 0;
  return (
    <Link to="/notifications" className="bell">
      <svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
        <path d="M8 1a4.5 4.5 0 0 0-4.5 4.5V9L2 11.5h12L12.5 9V5.5A4.5 4.5 0 0 0 8 1zM6 13a2 2 0 0 0 4 0z" />
      </svg>
      <span className="unseen">{texts.notifications.title}</span>
      {count > 0 && (
        <span className="count">
          {count}
          <span className="unseen"> {texts.notifications.unread}</span>
        </span>
      )}
      {isLost && (
        <span className="warn">
          <span aria-hidden="true">▲</span>
          <span className="unseen"> {texts.notifications.outOfDate}</span>
        </span>
      )}
    </Link>
  );
}
