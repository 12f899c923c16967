// SPDX-License-Identifier: GPL-2.0-only
/*
 * Has an engine, which is a device that masters the bus, do one thing:
 *
 *   engine_shell B:D.F load HEX          puts bytes into its memory
 *   engine_shell B:D.F unload SIZE       prints its memory
 *   engine_shell B:D.F store ADDR SIZE   has it write its memory to the bus
 *   engine_shell B:D.F fetch ADDR SIZE   has it read its memory from there
 *   engine_shell B:D.F memory SIZE       prints a device's memory, which need not be an engine
 */
#include "../../examples/pximc/engine.c"

#include <stdlib.h>

static void print(const uint8_t *data, size_t size)
{
	for (size_t i = 0; i < size; i++)
		printf("%02x", data[i]);
	printf("\n");
}

static size_t parse(const char *text, uint8_t *data)
{
	size_t size = 0;
	unsigned int byte;

	for (; size < ENGINE_SIZE && sscanf(text + 2 * size, "%2x", &byte) == 1; size++)
		data[size] = byte;
	return size;
}

static int show_memory(const struct place *place, size_t size)
{
	struct device_memory memory;

	if (!device_memory_open(&memory, place) || size > memory.size)
		return 1;
	print(memory.bytes, size);
	return 0;
}

int main(int argc, char **argv)
{
	uint8_t data[ENGINE_SIZE];
	struct engine engine;
	struct place place;
	const char *order;
	uint64_t number;
	bool done;

	if (argc < 4 || !place_parse(&place, argv[1]))
		return 2;
	order = argv[2];
	number = strtoull(argv[3], NULL, 0);
	if (!strcmp(order, "memory"))
		return show_memory(&place, number);
	if (!engine_open(&engine, &place))
		return 1;
	if (!strcmp(order, "load")) {
		done = engine_load(&engine, data, parse(argv[3], data));
	} else if (!strcmp(order, "unload")) {
		done = engine_unload(&engine, data, number);
		if (done)
			print(data, number);
	} else if (argc == 5 && !strcmp(order, "store")) {
		done = engine_store(&engine, number, strtoull(argv[4], NULL, 0));
	} else if (argc == 5 && !strcmp(order, "fetch")) {
		done = engine_fetch(&engine, number, strtoull(argv[4], NULL, 0));
	} else {
		return 2;
	}
	return done ? 0 : 1;
}
