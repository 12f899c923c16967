// SPDX-License-Identifier: GPL-2.0-only
/*
 * Segments as dma-bufs.
 *
 *   dma_buf SCENARIO
 *
 * Each scenario ends with an error if anything is not as it has to be.
 */
#include <linux/dma-buf.h>

#include "../uapi-v1/common.h"

#define RIGHTS (MP_GRANT_READ | MP_GRANT_WRITE)
#define PAGES 5u
#define TEST "/sys/kernel/mp_dmabuf_test/"

static uint32_t interface;

static int export_error(uint32_t handle, uint32_t rights)
{
	struct mp_segment_dmabuf export = {
		.size = sizeof(export), .handle = handle, .rights = rights,
	};

	return error_of(MP_IOC_SEGMENT_DMABUF, &export);
}

static int exported(uint32_t handle, uint32_t rights)
{
	struct mp_segment_dmabuf export = {
		.size = sizeof(export), .handle = handle, .rights = rights,
	};

	GOES(MP_IOC_SEGMENT_DMABUF, &export);
	return export.fd;
}

static volatile uint64_t *map_own(uint32_t handle, uint64_t length)
{
	struct mp_segment info = { .size = sizeof(info), .handle = handle };

	GOES(MP_IOC_SEGMENT, &info);
	return map_at(info.offset, length);
}

/* A mapping of a buffer, or the error. */
static int map_error(int fd, int access, int flags, size_t length, off_t offset, void **start)
{
	*start = mmap(NULL, length, access, flags, fd, offset);
	return *start == MAP_FAILED ? errno : 0;
}

/* Pages of processes that are pinned on this host. */
static long pinned(void)
{
	FILE *file = fopen("/proc/sys/vm/stat_refresh", "w");
	char name[64];
	long value, all = 0;

	/* Each processor keeps some of the counts to itself until then. */
	HOLDS(file && fputs("1", file) >= 0 && fclose(file) == 0);
	file = fopen("/proc/vmstat", "r");
	HOLDS(file);
	while (fscanf(file, "%63s %ld", name, &value) == 2) {
		if (!strcmp(name, "nr_foll_pin_acquired"))
			all += value;
		else if (!strcmp(name, "nr_foll_pin_released"))
			all -= value;
	}
	fclose(file);
	return all;
}

/* A command to the driver of the test. */
static int command(const char *what, int fd, unsigned long value)
{
	FILE *file = fopen(TEST "command", "w");
	int error;

	HOLDS(file);
	HOLDS(setvbuf(file, NULL, _IOFBF, 256) == 0);
	HOLDS(fprintf(file, "%s %d %lu", what, fd, value) > 0);
	error = fflush(file) ? errno : 0;
	fclose(file);
	return error;
}

/* A process and peers see the same memory, by mappings of a segment, a buffer and a connection. */
static void shows_the_segment(void)
{
	uint32_t handle = publish(interface, 800, PAGES * PAGE - 24);
	volatile uint64_t *memory = map_own(handle, PAGES * PAGE), *seen, *far;
	struct mp_connection to = { .size = sizeof(to) };
	struct dma_buf_sync sync = { .flags = DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW };
	int fd = exported(handle, RIGHTS);
	void *start;

	HOLDS(fcntl(fd, F_GETFD) == FD_CLOEXEC);
	HOLDS(lseek(fd, 0, SEEK_END) == PAGES * PAGE);
	HOLDS(map_error(fd, PROT_READ | PROT_WRITE, MAP_SHARED, PAGES * PAGE, 0, &start) == 0);
	seen = start;
	to.handle = connect_to(interface, MP_OBJECT_SEGMENT, 800, 0);
	GOES(MP_IOC_CONNECTION, &to);
	far = map_at(to.offset, PAGES * PAGE);
	HOLDS(ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync) == 0);
	memory[0] = 1;
	far[PAGE / 8] = 2;
	seen[2 * PAGE / 8] = 3;
	HOLDS(seen[0] == 1 && seen[PAGE / 8] == 2 && memory[2 * PAGE / 8] == 3);
	sync.flags = DMA_BUF_SYNC_END | DMA_BUF_SYNC_RW;
	HOLDS(ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync) == 0);
	HOLDS(map_error(fd, PROT_READ, MAP_SHARED, PAGE, 2 * PAGE, &start) == 0);
	HOLDS(((uint64_t *)start)[0] == 3);
	/* The kernel refuses that of the files of all dma-bufs. */
	HOLDS(map_error(fd, PROT_READ | PROT_EXEC, MAP_SHARED, PAGE, 0, &start) == EPERM);
	HOLDS(mprotect((void *)seen, PAGE, PROT_READ | PROT_EXEC) < 0 && errno == EACCES);
	HOLDS(map_error(fd, PROT_READ, MAP_PRIVATE, PAGE, 0, &start) == EINVAL);
	HOLDS(map_error(fd, PROT_READ, MAP_SHARED, 2 * PAGE, (PAGES - 1) * PAGE, &start) == EINVAL);
}

/* What was exported to be read is not written. */
static void keeps_to_its_rights(void)
{
	uint32_t handle = publish(interface, 801, PAGE);
	int fd = exported(handle, MP_GRANT_READ);
	struct mp_export export = { .size = sizeof(export), .handle = handle, .rights = MP_GRANT_READ };
	struct mp_import import = { .size = sizeof(import) };
	void *start;

	HOLDS(map_error(fd, PROT_READ | PROT_WRITE, MAP_SHARED, PAGE, 0, &start) == EACCES);
	HOLDS(map_error(fd, PROT_READ, MAP_SHARED, PAGE, 0, &start) == 0);
	HOLDS(mprotect(start, PAGE, PROT_READ | PROT_WRITE) < 0 && errno == EACCES);
	GOES(MP_IOC_EXPORT, &export);
	import.fd = export.fd;
	GOES(MP_IOC_IMPORT, &import);
	HOLDS(export_error(import.handle, RIGHTS) == EACCES);
	HOLDS(export_error(import.handle, MP_GRANT_READ) == 0);
	import.fd = fd;
	GIVES(EINVAL, MP_IOC_IMPORT, &import);
}

static uint32_t empty_segment(uint32_t id, uint64_t length)
{
	struct mp_segment_create create = {
		.size = sizeof(create), .flags = MP_SEGMENT_EMPTY, .id = id, .length = length,
	};

	GOES(MP_IOC_SEGMENT_CREATE, &create);
	return create.handle;
}

static void register_memory(uint32_t handle, const void *at, uint64_t length, uint32_t flags)
{
	struct mp_segment_register given = {
		.size = sizeof(given), .handle = handle, .flags = flags, .address = address(at),
		.length = length,
	};

	GOES(MP_IOC_SEGMENT_REGISTER, &given);
}

/* What cannot be shown to others as it is, is refused. */
static void refuses_what_it_cannot_show(void)
{
	uint32_t handle = empty_segment(802, 4 * PAGE);
	char *memory = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	HOLDS(memory != MAP_FAILED);
	HOLDS(export_error(handle, 0) == EINVAL && export_error(handle, MP_GRANT_WRITE) == EINVAL);
	HOLDS(export_error(handle, 8) == EINVAL && export_error(0x7fffffff, RIGHTS) == ENOENT);
	HOLDS(export_error(handle, RIGHTS) == ENXIO);
	register_memory(handle, memory + 8, PAGE, 0);
	HOLDS(export_error(handle, RIGHTS) == EOPNOTSUPP);
	handle = empty_segment(803, PAGE);
	register_memory(handle, memory, PAGE, MP_REGISTER_READ_ONLY);
	HOLDS(export_error(handle, MP_GRANT_READ) == EOPNOTSUPP);
}

/* Memory of a process stays where it is for those who have the buffer. */
static void shows_memory_of_a_process(void)
{
	uint32_t handle = empty_segment(804, PAGES * PAGE);
	uint64_t *memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	long before = pinned();
	void *start;
	int fd;

	HOLDS(memory != MAP_FAILED);
	memory[PAGE / 8] = 7;
	register_memory(handle, memory, PAGES * PAGE, 0);
	fd = exported(handle, RIGHTS);
	HOLDS(map_error(fd, PROT_READ | PROT_WRITE, MAP_SHARED, PAGES * PAGE, 0, &start) == 0);
	((uint64_t *)start)[2 * PAGE / 8] = 8;
	HOLDS(((uint64_t *)start)[PAGE / 8] == 7 && memory[2 * PAGE / 8] == 8);
	on_handle(MP_IOC_CLOSE, handle);
	HOLDS(munmap(memory, PAGES * PAGE) == 0);
	close(fd);
	HOLDS(((uint64_t *)start)[PAGE / 8] == 7);
	HOLDS(pinned() == before + (long)PAGES);
	HOLDS(munmap(start, PAGES * PAGE) == 0);
	HOLDS(pinned() == before);
}

/* A device finds all pages, and what it writes is there for everybody. */
static void is_used_by_a_device(void)
{
	uint32_t handle = publish(interface, 805, PAGES * PAGE);
	volatile uint64_t *memory = map_own(handle, PAGES * PAGE);
	int fd = exported(handle, RIGHTS), n;
	unsigned long size, length, right;
	FILE *file;

	for (n = 0; n < (int)PAGES; n++)
		memory[n * PAGE / 8] = 41;
	HOLDS(command("check", fd, 41) == 0);
	file = fopen(TEST "result", "r");
	HOLDS(file && fscanf(file, "%lu %lu %lu", &size, &length, &right) == 3);
	fclose(file);
	HOLDS(size == PAGES * PAGE && length == size && right == PAGES);
	for (n = 0; n < (int)PAGES; n++)
		HOLDS(memory[n * PAGE / 8] == 42);
}

/* The memory is there as long as a device has it. */
static void stays_for_a_device(void)
{
	uint32_t handle = empty_segment(806, PAGES * PAGE);
	void *memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);
	long before = pinned();
	int fd;

	HOLDS(memory != MAP_FAILED);
	register_memory(handle, memory, PAGES * PAGE, 0);
	fd = exported(handle, RIGHTS);
	HOLDS(command("hold", fd, 0) == 0);
	close(fd);
	on_handle(MP_IOC_CLOSE, handle);
	HOLDS(pinned() == before + (long)PAGES);
	HOLDS(command("release", 0, 0) == 0);
	HOLDS(pinned() == before);
}

/* Pages that are no run, more than a device takes in a piece, at the addresses that it is told. */
static void shows_a_device_all_pages(void)
{
	uint64_t length = 600 * PAGE, n;
	uint32_t handle = empty_segment(807, length);
	uint64_t *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				-1, 0);
	unsigned long size, listed, right;
	FILE *file;

	HOLDS(memory != MAP_FAILED);
	for (n = 0; n < length; n += PAGE)
		memory[n / 8] = 61;
	register_memory(handle, memory, length, 0);
	HOLDS(command("check", exported(handle, RIGHTS), 61) == 0);
	file = fopen(TEST "result", "r");
	HOLDS(file && fscanf(file, "%lu %lu %lu", &size, &listed, &right) == 3);
	fclose(file);
	HOLDS(size == length && listed == length && right == length / PAGE);
	for (n = 0; n < length; n += PAGE)
		HOLDS(memory[n / 8] == 62);
}

/* A device does not write what was exported to be read, however the driver asks. */
static void is_only_read_by_a_device(void)
{
	uint32_t handle = publish(interface, 809, PAGE);
	int fd = exported(handle, MP_GRANT_READ);

	map_own(handle, PAGE)[0] = 71;
	HOLDS(command("check", fd, 71) == EACCES);
	HOLDS(command("read", fd, 71) == 0);
	HOLDS(map_own(handle, PAGE)[0] == 71);
}

static const struct {
	const char *name;
	void (*run)(void);
} scenarios[] = {
	{ "map", shows_the_segment },
	{ "rights", keeps_to_its_rights },
	{ "refused", refuses_what_it_cannot_show },
	{ "process", shows_memory_of_a_process },
	{ "device", is_used_by_a_device },
	{ "stays", stays_for_a_device },
	{ "scattered", shows_a_device_all_pages },
	{ "reads", is_only_read_by_a_device },
};

int main(int argc, char **argv)
{
	uint32_t n;

	HOLDS(argc == 2);
	fabric = open_context();
	interface = loopback();
	for (n = 0; n < sizeof(scenarios) / sizeof(scenarios[0]); n++) {
		if (!strcmp(argv[1], scenarios[n].name)) {
			scenarios[n].run();
			return 0;
		}
	}
	HOLDS(!"a scenario of that name");
	return 1;
}
