/** How long a run may take unless something says otherwise. */
export const DEFAULT_RUN_SECONDS = 3_600;

/** How many runs of a service may not have ended, on every plan. */
export const MOST_OF_SERVICE = 50;
