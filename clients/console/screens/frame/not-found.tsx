import { Link } from "@tanstack/react-router";
import { Empty } from "../../design/state.tsx";
import { texts } from "../../texts.ts";

export function NotFound() {
  return (
    <Empty isScreen title={texts.notFound.title}>
      <p>
        <Link to="/">{texts.notFound.home}</Link>
      </p>
    </Empty>
  );
}
