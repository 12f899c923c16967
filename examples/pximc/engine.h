/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Devices of this system, by what sysfs shows of them; for root.
 *
 * The engine is QEMU's "edu" device, a stand-in for any device that masters the bus: it
 * copies up to ENGINE_SIZE bytes from an address on the bus to memory of its own, or from
 * there to an address. `-device edu,dma_mask=0xffffffffffffffff` adds one to a guest.
 */
#ifndef PXIMC_ENGINE_H
#define PXIMC_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Most bytes of a copy. The engine has twice as many, the last of which some versions of QEMU
 * take for the first one outside.
 */
#define ENGINE_SIZE 2048

/* The place of a function on a PCI bus of domain 0. */
struct place {
	unsigned int bus, device, function;
};

/* Reads "bus:device.function", of hexadecimal numbers. */
bool place_parse(struct place *place, const char *text);

/* Memory of a device, as its driver has it. */
struct device_memory {
	uint64_t address;		/* physical */
	uint64_t size;
	uint8_t *bytes;
};

/* Maps the largest BAR of a device that is memory. All functions say why they fail. */
bool device_memory_open(struct device_memory *memory, const struct place *place);

struct engine {
	uint8_t *registers;
	uint8_t *page;			/* for the engine, at this address on the bus */
	uint64_t page_address;
};

/* Makes a device ready that is an engine. */
bool engine_open(struct engine *engine, const struct place *place);
/* Puts data into the engine's memory, and takes it out; both need a page of RAM. */
bool engine_load(struct engine *engine, const uint8_t *data, size_t size);
bool engine_unload(struct engine *engine, uint8_t *data, size_t size);
/* Has the engine write its memory to an address on the bus, or read it from there. */
bool engine_store(struct engine *engine, uint64_t address, size_t size);
bool engine_fetch(struct engine *engine, uint64_t address, size_t size);

#endif /* PXIMC_ENGINE_H */
