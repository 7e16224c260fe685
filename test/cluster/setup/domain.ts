/** The domain of the platform's and the apps' host names in tests. */
export const testDomain = "berth.test";
