/** Thousandths of a CPU, and MiB of memory and of local disk (docs/catalog.md#sizes). */
export const sizes = {
  nano: { cpu: 250, memory: 256, storage: 1024 },
  small: { cpu: 500, memory: 512, storage: 2048 },
  medium: { cpu: 1000, memory: 1024, storage: 4096 },
  large: { cpu: 2000, memory: 4096, storage: 8192 },
};
