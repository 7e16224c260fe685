import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import "./design/tokens.css";
import "./design/console.css";
import { queries } from "./live/queries.ts";
import { router } from "./router.tsx";
import { texts } from "./texts.ts";

const root = document.getElementById("root");
if (root)
  createRoot(root).render(
    <StrictMode>
      {/* Without encryption browsers do not say where requests come from, and the API takes no session. */}
      {isSecureContext ? (
        <QueryClientProvider client={queries}>
          <RouterProvider router={router} />
        </QueryClientProvider>
      ) : (
        <main>
          <h1>{texts.name}</h1>
          <p role="alert">{texts.failures.insecure}</p>
        </main>
      )}
    </StrictMode>,
  );
