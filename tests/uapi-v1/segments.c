// SPDX-License-Identifier: GPL-2.0-only
/* A program of version 1: segments, connections, grants, and memory of the process. */
#include "common.h"

static uint32_t interface;
static const volatile uint64_t *words;

static struct mp_segment segment(uint32_t handle)
{
	struct mp_segment info = {
		.size = sizeof(info), .handle = handle, .interface = interface,
	};

	GOES(MP_IOC_SEGMENT, &info);
	return info;
}

static struct mp_connection connection(uint32_t handle)
{
	struct mp_connection info = { .size = sizeof(info), .handle = handle };

	GOES(MP_IOC_CONNECTION, &info);
	return info;
}

static uint32_t notice(uint32_t handle)
{
	struct mp_notice taken = {
		.size = sizeof(taken), .handle = handle, .deadline = MP_DEADLINE_NEVER,
	};

	GOES(MP_IOC_NOTICE, &taken);
	HOLDS(taken.interface == interface);
	return taken.notice;
}

static uint32_t create(uint32_t id, uint32_t flags, const char *name, uint64_t length)
{
	struct mp_segment_create create = {
		.size = sizeof(create), .flags = flags, .id = id, .length = length,
		.name = address(name), .name_size = strlen(name),
	};

	GOES(MP_IOC_SEGMENT_CREATE, &create);
	return create.handle;
}

static void prepare(uint32_t handle)
{
	struct mp_segment_interface at = {
		.size = sizeof(at), .handle = handle, .interface = interface,
	};

	GOES(MP_IOC_SEGMENT_PREPARE, &at);
}

static void connects_by_number_and_by_name(void)
{
	uint32_t handle = create(77, 0, "version 1", 2 * PAGE);
	struct mp_segment_interface at = {
		.size = sizeof(at), .handle = handle, .interface = interface,
	};
	struct mp_connect by_name = {
		.size = sizeof(by_name), .interface = interface, .object = MP_OBJECT_SEGMENT,
		.deadline = MP_DEADLINE_NEVER, .name = address("version 1"), .name_size = 9,
	};
	struct mp_barrier barrier = { .size = sizeof(barrier), .deadline = MP_DEADLINE_NEVER };
	struct mp_exchange word = {
		.size = sizeof(word), .offset = 4800, .expected = 0xabcd, .desired = 7,
		.deadline = MP_DEADLINE_NEVER,
	};
	struct mp_address place = { .size = sizeof(place), .length = PAGE };
	struct mp_connection to;
	volatile uint64_t *near, *far;
	uint32_t number;

	prepare(handle);
	HOLDS(segment(handle).state == MP_SEGMENT_PREPARED);
	GOES(MP_IOC_SEGMENT_PUBLISH, &at);
	number = connect_to(interface, MP_OBJECT_SEGMENT, 77, 0);
	GOES(MP_IOC_CONNECT, &by_name);
	HOLDS(segment(handle).connections == 2 && segment(handle).state == MP_SEGMENT_PUBLISHED);
	HOLDS(notice(handle) == MP_NOTICE_CONNECTED && notice(handle) == MP_NOTICE_CONNECTED);
	to = connection(number);
	HOLDS(to.state == MP_CONNECTION_OPERATIONAL && to.length == 2 * PAGE && to.number == 77);
	HOLDS(to.rights == (MP_GRANT_READ | MP_GRANT_WRITE) && to.object == MP_OBJECT_SEGMENT);
	HOLDS(state_in(words, to.status) == MP_CONNECTION_OPERATIONAL);
	HOLDS(connection(by_name.handle).number == 0);
	near = map_at(segment(handle).offset, 2 * PAGE);
	far = map_at(to.offset, to.length);
	far[600] = 0xabcd;
	barrier.target = number;
	GOES(MP_IOC_BARRIER, &barrier);
	HOLDS(near[600] == 0xabcd);
	word.connection = number;
	GOES(MP_IOC_EXCHANGE, &word);
	HOLDS(word.exchanged == 1 && near[600] == 7);
	GOES(MP_IOC_EXCHANGE, &word);
	HOLDS(word.exchanged == 0 && near[600] == 7);
	place.handle = handle;
	GOES(MP_IOC_ADDRESS, &place);
	HOLDS(place.address != 0 && place.address % PAGE == 0);

	on_handle(MP_IOC_CLOSE, by_name.handle);
	HOLDS(notice(handle) == MP_NOTICE_DISCONNECTED);
	at.flags = MP_WITHDRAW_NOTIFY;
	GOES(MP_IOC_SEGMENT_WITHDRAW, &at);
	HOLDS(notice(number) == MP_NOTICE_DISCONNECTED);
	HOLDS(connection(number).state & MP_CONNECTION_WITHDRAWN);
	HOLDS(remove_error(handle, 0) == EBUSY);
	HOLDS(remove_error(handle, MP_REMOVE_FORCE) == 0);
	HOLDS(notice(number) == MP_NOTICE_LOST);
	HOLDS(state_in(words, to.status) & MP_CONNECTION_LOST);
	on_handle(MP_IOC_CLOSE, number);
}

static void attaches_in_another_context(void)
{
	int owner = fabric, other = open_context();
	uint32_t handle = create(78, 0, "", PAGE);
	struct mp_segment_attach attach = { .size = sizeof(attach), .id = 78 };

	fabric = other;
	GIVES(EPERM, MP_IOC_SEGMENT_ATTACH, &attach);
	fabric = owner;
	on_handle(MP_IOC_SEGMENT_SHARE, handle);
	HOLDS(segment(handle).flags & MP_SEGMENT_SHARED);
	fabric = other;
	GOES(MP_IOC_SEGMENT_ATTACH, &attach);
	HOLDS(attach.length == PAGE);
	fabric = owner;
	HOLDS(remove_error(handle, 0) == 0);
	fabric = other;
	HOLDS(segment(attach.handle).length == PAGE);
	close(other);
	fabric = owner;
}

static void is_a_dma_buf(void)
{
	uint64_t *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct mp_segment_dmabuf export = {
		.size = sizeof(export), .handle = create(84, MP_SEGMENT_EMPTY, "", PAGE),
		.rights = MP_GRANT_READ,
	};
	struct mp_segment_register given = {
		.size = sizeof(given), .handle = export.handle, .address = address(memory),
		.length = PAGE,
	};
	struct mp_info info = { .size = sizeof(info) };
	uint64_t *seen;

	HOLDS(memory != MAP_FAILED);
	memory[5] = 0x8888;
	GIVES(ENXIO, MP_IOC_SEGMENT_DMABUF, &export);
	GOES(MP_IOC_SEGMENT_REGISTER, &given);
	GOES(MP_IOC_INFO, &info);
	if (!(info.features & MP_FEATURE_DMABUF)) {
		GIVES(EOPNOTSUPP, MP_IOC_SEGMENT_DMABUF, &export);
		return;
	}
	GOES(MP_IOC_SEGMENT_DMABUF, &export);
	seen = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, export.fd, 0);
	HOLDS(seen != MAP_FAILED && seen[5] == 0x8888);
}

static void hands_over(void)
{
	int owner = fabric, other = open_context();
	uint32_t handle = create(83, 0, "", PAGE);
	struct mp_export export = {
		.size = sizeof(export), .handle = handle, .rights = MP_GRANT_READ | MP_GRANT_WRITE,
	};
	struct mp_import import = { .size = sizeof(import) };

	map_at(segment(handle).offset, PAGE)[1] = 0x7777;
	GOES(MP_IOC_EXPORT, &export);
	on_handle(MP_IOC_CLOSE, handle);
	import.fd = export.fd;
	fabric = other;
	GOES(MP_IOC_IMPORT, &import);
	close(export.fd);
	HOLDS(import.object == MP_OBJECT_SEGMENT && import.rights == export.rights);
	HOLDS(map_at(segment(import.handle).offset, PAGE)[1] == 0x7777);
	close(other);
	fabric = owner;
}

static void grants_to_one_partner(void)
{
	uint32_t handle = create(0, MP_SEGMENT_PRIVATE, "", PAGE);
	struct mp_segment_grant grant = {
		.size = sizeof(grant), .segment = handle, .rights = MP_GRANT_READ | MP_GRANT_WRITE,
	};
	struct mp_connect connect = {
		.size = sizeof(connect), .flags = MP_CONNECT_GRANTED, .interface = interface,
		.object = MP_OBJECT_SEGMENT, .deadline = MP_DEADLINE_NEVER,
	};

	make_pair(interface, 0, &grant.session, &connect.session);
	GIVES(ENXIO, MP_IOC_SEGMENT_GRANT, &grant);
	prepare(handle);
	GOES(MP_IOC_SEGMENT_GRANT, &grant);
	connect.number = grant.handle;
	GOES(MP_IOC_CONNECT, &connect);
	HOLDS(connection(connect.handle).rights == grant.rights);
	HOLDS(remove_error(grant.handle, 0) == EBUSY);
	HOLDS(remove_error(grant.handle, MP_REMOVE_FORCE) == 0);
	HOLDS(connection(connect.handle).state & MP_CONNECTION_LOST);
	HOLDS(remove_error(handle, 0) == 0);
}

static void registers_memory_of_the_process(void)
{
	uint32_t handle = create(79, MP_SEGMENT_EMPTY, "", PAGE);
	volatile uint64_t *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
					 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct mp_segment_register given = {
		.size = sizeof(given), .handle = handle, .address = address((void *)memory),
		.length = PAGE,
	};
	struct mp_segment_interface at = {
		.size = sizeof(at), .handle = handle, .interface = interface,
	};
	uint32_t to;
	struct mp_connection info;

	HOLDS(memory != MAP_FAILED);
	GIVES(ENXIO, MP_IOC_SEGMENT_PREPARE, &at);
	GOES(MP_IOC_SEGMENT_REGISTER, &given);
	GIVES(EEXIST, MP_IOC_SEGMENT_REGISTER, &given);
	GOES(MP_IOC_SEGMENT_PREPARE, &at);
	GOES(MP_IOC_SEGMENT_PUBLISH, &at);
	to = connect_to(interface, MP_OBJECT_SEGMENT, 79, 0);
	info = connection(to);
	map_at(info.offset, info.length)[3] = 0x5555;
	HOLDS(memory[3] == 0x5555);
	on_handle(MP_IOC_CLOSE, handle);
	HOLDS(connection(to).state & MP_CONNECTION_LOST);
}

static void names_a_function_that_is_not_there(void)
{
	struct mp_segment_register given = {
		.size = sizeof(given), .handle = create(86, MP_SEGMENT_EMPTY, "", PAGE),
		.flags = MP_REGISTER_BAR, .length = PAGE, .pci_domain_high = 0x7fff, .pci_bar = 2,
	};
	struct mp_session_open open = {
		.size = sizeof(open), .interface = interface, .role = MP_ROLE_SERVER,
		.location = MP_LOCATION_BAR, .local_min = PAGE, .local_max = PAGE,
		.pci_domain_high = 0x7fff, .pci_bar = 2,
	};

	GIVES(ENODEV, MP_IOC_SEGMENT_REGISTER, &given);
	GIVES(ENODEV, MP_IOC_SESSION_OPEN, &open);
	given.flags = 0;
	GIVES(EINVAL, MP_IOC_SEGMENT_REGISTER, &given);
	open.location = MP_LOCATION_PHYSICAL;
	GIVES(EINVAL, MP_IOC_SESSION_OPEN, &open);
}

static void is_for_this_host_alone(void)
{
	struct mp_segment_create create = {
		.size = sizeof(create), .flags = MP_SEGMENT_ONE_PEER, .id = 89, .length = PAGE,
		.interface = interface,
	};

	GOES(MP_IOC_SEGMENT_CREATE, &create);
	HOLDS(segment(create.handle).length == PAGE && segment(create.handle).offset);
	on_handle(MP_IOC_CLOSE, create.handle);
	create.flags |= MP_SEGMENT_EMPTY;
	GIVES(EINVAL, MP_IOC_SEGMENT_CREATE, &create);
	create.flags = 0;
	GIVES(EINVAL, MP_IOC_SEGMENT_CREATE, &create);
}

static void is_filled_from_a_dma_buf(void)
{
	struct mp_segment_dmabuf export = {
		.size = sizeof(export), .handle = create(87, 0, "", PAGE),
		.rights = MP_GRANT_READ | MP_GRANT_WRITE,
	};
	struct mp_segment_register given = {
		.size = sizeof(given), .handle = create(88, MP_SEGMENT_EMPTY, "", PAGE),
		.flags = MP_REGISTER_DMABUF, .length = PAGE,
	};
	struct mp_info info = { .size = sizeof(info) };

	GOES(MP_IOC_INFO, &info);
	if (!(info.features & MP_FEATURE_DMABUF)) {
		GIVES(EOPNOTSUPP, MP_IOC_SEGMENT_REGISTER, &given);
		return;
	}
	GOES(MP_IOC_SEGMENT_DMABUF, &export);
	given.fd = export.fd;
	GOES(MP_IOC_SEGMENT_REGISTER, &given);
	close(export.fd);
	HOLDS(segment(given.handle).length == PAGE && segment(given.handle).offset == 0);
	on_handle(MP_IOC_CLOSE, export.handle);
	on_handle(MP_IOC_CLOSE, given.handle);
}

static void publishes_what_is_only_read(void)
{
	static const char text[] = "only to be read";
	uint32_t handle = create(80, MP_SEGMENT_EMPTY, "", sizeof(text));
	struct mp_segment_register given = {
		.size = sizeof(given), .handle = handle, .flags = MP_REGISTER_READ_ONLY,
		.address = address(text), .length = sizeof(text),
	};
	struct mp_segment_interface at = {
		.size = sizeof(at), .handle = handle, .interface = interface,
	};
	struct mp_connection info;

	GOES(MP_IOC_SEGMENT_REGISTER, &given);
	GOES(MP_IOC_SEGMENT_PREPARE, &at);
	GIVES(EOPNOTSUPP, MP_IOC_SEGMENT_PUBLISH, &at);
	at.flags = MP_PUBLISH_PLACED;
	GOES(MP_IOC_SEGMENT_PUBLISH, &at);
	info = connection(connect_to(interface, MP_OBJECT_SEGMENT, 80, MP_CONNECT_PLACED));
	HOLDS(info.state == (MP_CONNECTION_OPERATIONAL | MP_CONNECTION_PLACED));
	HOLDS(info.rights == MP_GRANT_READ && info.offset == 0);
}

int main(void)
{
	fabric = open_context();
	interface = loopback();
	words = status_words();
	connects_by_number_and_by_name();
	attaches_in_another_context();
	hands_over();
	is_a_dma_buf();
	grants_to_one_partner();
	registers_memory_of_the_process();
	names_a_function_that_is_not_there();
	is_filled_from_a_dma_buf();
	is_for_this_host_alone();
	publishes_what_is_only_read();
	return 0;
}
