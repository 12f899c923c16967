// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * See engine.h.
 */
#define _DEFAULT_SOURCE

#include "engine.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* The bits of the command register of PCI that let a device master the bus. */
#define PCI_COMMAND 4
#define PCI_COMMAND_MASTER 0x4

/* Registers of the engine. */
#define REGISTERS_SIZE 0x100000
#define ID 0x00
#define ID_KIND 0x00ed
#define SOURCE 0x80
#define DESTINATION 0x88
#define COUNT 0x90
#define COMMAND 0x98
#define COMMAND_RUN 0x1
#define COMMAND_OUT 0x2			/* from the engine's memory */
/* Where the engine's own memory is for it. */
#define OWN 0x40000

#define PAGE_BYTES 4096

/* The engine takes 100 ms for each copy, on a machine that has time. */
#define PATIENCE_MS 20000

static bool failed(const struct place *place, const char *what)
{
	printf("FAILED: device %x:%x.%x: ", place->bus, place->device, place->function);
	fflush(stdout);
	perror(what);
	return false;
}

bool place_parse(struct place *place, const char *text)
{
	return sscanf(text, "%x:%x.%x", &place->bus, &place->device, &place->function) == 3;
}

static int device_file(const struct place *place, const char *name, int flags)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/0000:%02x:%02x.%x/%s", place->bus,
		 place->device, place->function, name);
	return open(path, flags | O_CLOEXEC);
}

static bool enable(const struct place *place)
{
	int file = device_file(place, "enable", O_WRONLY);
	bool done = file >= 0 && write(file, "1", 1) == 1;

	if (file >= 0)
		close(file);
	return done || failed(place, "it cannot be enabled");
}

static bool enable_master(const struct place *place)
{
	int file = device_file(place, "config", O_RDWR);
	bool done = false;
	uint16_t command;

	if (file >= 0 && pread(file, &command, sizeof(command), PCI_COMMAND) == sizeof(command)) {
		command |= PCI_COMMAND_MASTER;
		done = pwrite(file, &command, sizeof(command), PCI_COMMAND) == sizeof(command);
	}
	if (file >= 0)
		close(file);
	return done || failed(place, "it cannot master the bus");
}

/* Maps a BAR; NULL if that fails. */
static void *map_bar(const struct place *place, unsigned int bar, size_t size)
{
	char name[16];
	void *mapped;
	int file;

	snprintf(name, sizeof(name), "resource%u", bar);
	file = device_file(place, name, O_RDWR | O_SYNC);
	if (file < 0)
		return NULL;
	mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	close(file);
	return mapped == MAP_FAILED ? NULL : mapped;
}

bool device_memory_open(struct device_memory *memory, const struct place *place)
{
	int file = device_file(place, "resource", O_RDONLY);
	FILE *lines = file < 0 ? NULL : fdopen(file, "r");
	uint64_t start, end, flags;
	unsigned int largest = 0;

	memset(memory, 0, sizeof(*memory));
	if (!lines)
		return failed(place, "it is not there");
	for (unsigned int bar = 0; bar < 6; bar++) {
		if (fscanf(lines, "%" SCNx64 "%" SCNx64 "%" SCNx64, &start, &end, &flags) != 3)
			break;
		/* IORESOURCE_MEM of the kernel */
		if (!(flags & 0x200) || end - start < memory->size)
			continue;
		memory->address = start;
		memory->size = end - start + 1;
		largest = bar;
	}
	fclose(lines);
	if (!enable(place))
		return false;
	memory->bytes = memory->size ? map_bar(place, largest, memory->size) : NULL;
	return memory->bytes || failed(place, "its memory cannot be mapped");
}

/* A page of memory that stays where it is, and its address on the bus. */
static bool make_page(struct engine *engine)
{
	int file = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t entry = 0;
	void *page;

	page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED | MAP_POPULATE, -1, 0);
	if (page == MAP_FAILED || file < 0)
		return false;
	engine->page = page;
	/* An entry for each page: its number in the lower 55 bits. */
	if (pread(file, &entry, sizeof(entry), (uintptr_t)page / PAGE_BYTES * sizeof(entry)) !=
	    sizeof(entry))
		entry = 0;
	close(file);
	engine->page_address = (entry & ((1ULL << 55) - 1)) * PAGE_BYTES;
	return engine->page_address;
}

bool engine_open(struct engine *engine, const struct place *place)
{
	memset(engine, 0, sizeof(*engine));
	if (!enable(place) || !enable_master(place))
		return false;
	engine->registers = map_bar(place, 0, REGISTERS_SIZE);
	if (!engine->registers)
		return failed(place, "its registers cannot be mapped");
	if ((__atomic_load_n((uint32_t *)(engine->registers + ID), __ATOMIC_ACQUIRE) & 0xffff) !=
	    ID_KIND)
		return failed(place, "it is not an engine");
	return make_page(engine) || failed(place, "no memory for it");
}

static void set(struct engine *engine, size_t at, uint64_t value)
{
	__atomic_store_n((uint64_t *)(engine->registers + at), value, __ATOMIC_RELEASE);
}

static uint64_t get(const struct engine *engine, size_t at)
{
	return __atomic_load_n((const uint64_t *)(engine->registers + at), __ATOMIC_ACQUIRE);
}

static bool run(struct engine *engine, uint64_t from, uint64_t to, size_t size, uint64_t how)
{
	struct timespec nap = { .tv_nsec = 1000000 };

	if (size > ENGINE_SIZE) {
		printf("FAILED: the engine copies %d bytes\n", ENGINE_SIZE);
		return false;
	}
	set(engine, SOURCE, from);
	set(engine, DESTINATION, to);
	set(engine, COUNT, size);
	set(engine, COMMAND, COMMAND_RUN | how);
	for (int i = 0; i < PATIENCE_MS; i++) {
		if (!(get(engine, COMMAND) & COMMAND_RUN))
			return true;
		nanosleep(&nap, NULL);
	}
	printf("FAILED: the engine does not come to an end\n");
	return false;
}

bool engine_store(struct engine *engine, uint64_t address, size_t size)
{
	return run(engine, OWN, address, size, COMMAND_OUT);
}

bool engine_fetch(struct engine *engine, uint64_t address, size_t size)
{
	return run(engine, address, OWN, size, 0);
}

bool engine_load(struct engine *engine, const uint8_t *data, size_t size)
{
	memcpy(engine->page, data, size < ENGINE_SIZE ? size : ENGINE_SIZE);
	return engine_fetch(engine, engine->page_address, size);
}

bool engine_unload(struct engine *engine, uint8_t *data, size_t size)
{
	if (!engine_store(engine, engine->page_address, size))
		return false;
	memcpy(data, engine->page, size);
	return true;
}
