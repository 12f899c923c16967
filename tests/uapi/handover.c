// SPDX-License-Identifier: GPL-2.0-only
/*
 * Segments and connections that are handed to another process.
 *
 *   handover SCENARIO [INTERFACE ID]
 *
 * Each scenario ends with an error if anything is not as it has to be. The other process is a
 * child, which has a context of its own and, where that matters, another user.
 */
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "../uapi-v1/common.h"

#define NOBODY 65534
#define RIGHTS (MP_GRANT_READ | MP_GRANT_WRITE)

static uint32_t interface;

static void send_descriptor(int to, int fd)
{
	char byte = 0, room[CMSG_SPACE(sizeof(int))] = "";
	struct iovec data = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1,
		.msg_control = room, .msg_controllen = sizeof(room),
	};
	struct cmsghdr *control = CMSG_FIRSTHDR(&message);

	control->cmsg_level = SOL_SOCKET;
	control->cmsg_type = SCM_RIGHTS;
	control->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(control), &fd, sizeof(fd));
	HOLDS(sendmsg(to, &message, 0) == 1);
}

static int receive_descriptor(int from)
{
	char byte, room[CMSG_SPACE(sizeof(int))];
	struct iovec data = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1,
		.msg_control = room, .msg_controllen = sizeof(room),
	};
	int fd;

	HOLDS(recvmsg(from, &message, MSG_CMSG_CLOEXEC) == 1);
	HOLDS(CMSG_FIRSTHDR(&message));
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
	return fd;
}

/* Exports a handle; its descriptor. */
static int exported(uint32_t handle, uint32_t rights)
{
	struct mp_export export = { .size = sizeof(export), .handle = handle, .rights = rights };

	GOES(MP_IOC_EXPORT, &export);
	return export.fd;
}

static int export_error(uint32_t handle, uint32_t rights)
{
	struct mp_export export = { .size = sizeof(export), .handle = handle, .rights = rights };

	return error_of(MP_IOC_EXPORT, &export);
}

static struct mp_import import_of(int fd)
{
	return (struct mp_import) {
		.size = sizeof(struct mp_import), .fd = fd, .deadline = MP_DEADLINE_NEVER,
	};
}

static struct mp_import imported(int fd)
{
	struct mp_import import = import_of(fd);

	GOES(MP_IOC_IMPORT, &import);
	return import;
}

static int import_error(int fd)
{
	struct mp_import import = import_of(fd);

	return error_of(MP_IOC_IMPORT, &import);
}

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

static int connect_error(uint32_t id)
{
	struct mp_connect connect = {
		.size = sizeof(connect), .interface = interface, .object = MP_OBJECT_SEGMENT,
		.number = id, .deadline = MP_DEADLINE_NEVER,
	};

	return error_of(MP_IOC_CONNECT, &connect);
}

/* Whether a segment with that id can be made: nobody has it. */
static int is_free(uint32_t id)
{
	struct mp_segment_create create = { .size = sizeof(create), .id = id, .length = PAGE };
	int error = error_of(MP_IOC_SEGMENT_CREATE, &create);

	HOLDS(error == 0 || error == EADDRINUSE);
	if (!error)
		on_handle(MP_IOC_CLOSE, create.handle);
	return !error;
}

/* A child with a socket to its parent, and a context of its own as another user. */
static pid_t child(int *socket_of_both, int is_other_user)
{
	int sockets[2];
	pid_t pid;

	HOLDS(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0);
	pid = fork();
	HOLDS(pid >= 0);
	*socket_of_both = sockets[pid ? 0 : 1];
	close(sockets[pid ? 1 : 0]);
	if (pid == 0) {
		if (is_other_user)
			HOLDS(setresuid(NOBODY, NOBODY, NOBODY) == 0);
		fabric = open_context();
	}
	return pid;
}

static void succeeds(pid_t pid)
{
	int status;

	HOLDS(waitpid(pid, &status, 0) == pid);
	HOLDS(status == 0);
}

/* A segment goes to a process of another user, who writes it. */
static void hands_a_segment_to_another_user(void)
{
	uint32_t handle = publish(interface, 700, PAGE);
	volatile uint64_t *memory = map_at(segment(handle).offset, PAGE);
	int way;
	pid_t pid = child(&way, 1);

	if (pid == 0) {
		struct mp_import got = imported(receive_descriptor(way));
		volatile uint64_t *seen = map_at(segment(got.handle).offset, PAGE);

		HOLDS(got.object == MP_OBJECT_SEGMENT && got.rights == RIGHTS);
		HOLDS(seen[0] == 0x11);
		seen[1] = 0x22;
		exit(0);
	}
	memory[0] = 0x11;
	send_descriptor(way, exported(handle, RIGHTS));
	succeeds(pid);
	HOLDS(memory[1] == 0x22);
}

/* Neither the numbers of handles, nor an inherited context, nor another file give anything. */
static void gives_nothing_by_accident(void)
{
	uint32_t handle = publish(interface, 701, PAGE);
	int owner = fabric, fd = exported(handle, RIGHTS), other = open("/dev/null", O_RDWR);
	char name[64], target[64] = "";
	int way;
	pid_t pid;

	HOLDS(fcntl(fd, F_GETFD) == FD_CLOEXEC);
	HOLDS(read(fd, target, 1) < 0 && mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED);
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	HOLDS(readlink(name, target, sizeof(target) - 1) > 0 && strstr(target, "[mp_export]"));
	HOLDS(open(name, O_RDWR) < 0);
	HOLDS(import_error(-1) == EBADF);
	HOLDS(import_error(other) == EINVAL && import_error(fabric) == EINVAL);
	pid = child(&way, 0);
	if (pid == 0) {
		struct mp_segment info = { .size = sizeof(info), .handle = handle };

		GIVES(ENOENT, MP_IOC_SEGMENT, &info);
		HOLDS(export_error(handle, RIGHTS) == ENOENT);
		HOLDS(ioctl(owner, MP_IOC_SEGMENT, &info) < 0 && errno == EACCES);
		fabric = owner;
		HOLDS(export_error(handle, RIGHTS) == EACCES && import_error(fd) == EACCES);
		exit(0);
	}
	succeeds(pid);
	HOLDS(export_error(handle, 0) == EINVAL && export_error(handle, 4) == EINVAL);
	HOLDS(export_error(0x7fffffff, RIGHTS) == ENOENT);
}

static int at_error(unsigned long call, uint32_t handle)
{
	struct mp_segment_interface at = {
		.size = sizeof(at), .handle = handle, .interface = interface,
	};

	return error_of(call, &at);
}

/* Copies between an own segment and one that was handed over. */
static int copy_error(uint32_t handle, uint32_t flags)
{
	static uint32_t queue, to;
	struct mp_copy copy = { .length = 8 };
	struct mp_queue_create create = {
		.size = sizeof(create), .interface = interface, .entries = 1,
	};
	struct mp_queue_start start = {
		.size = sizeof(start), .segment = handle, .count = 1, .flags = flags,
		.copies = address(&copy),
	};
	int error;

	if (!queue) {
		GOES(MP_IOC_QUEUE_CREATE, &create);
		queue = create.handle;
		publish(interface, 710, PAGE);
		to = connect_to(interface, MP_OBJECT_SEGMENT, 710, 0);
	}
	start.handle = queue;
	start.connection = to;
	error = error_of(MP_IOC_QUEUE_START, &start);
	if (!error)
		wait_for(queue, MP_EVENT_DONE, MP_DEADLINE_NEVER);
	return error;
}

static int map_error(uint32_t handle, int access)
{
	uint64_t offset = segment(handle).offset;
	void *start = mmap(NULL, PAGE, access, MAP_SHARED, fabric, (off_t)offset);
	int error = start == MAP_FAILED ? errno : 0;

	if (!error && !(access & PROT_WRITE)) {
		/* It stays what it was. */
		HOLDS(mprotect(start, PAGE, PROT_READ | PROT_WRITE) < 0);
		HOLDS(errno == EACCES);
	}
	return error;
}

/* What may not be done is refused, by each call. */
static void refuses_what_was_not_handed_over(void)
{
	uint32_t owned = publish(interface, 702, PAGE);
	uint32_t reader = imported(exported(owned, MP_GRANT_READ)).handle;
	uint32_t both = imported(exported(owned, RIGHTS)).handle;
	struct mp_segment_register given = {
		.size = sizeof(given), .handle = both, .length = PAGE,
	};
	struct mp_segment_grant grant = {
		.size = sizeof(grant), .segment = both, .rights = MP_GRANT_READ,
	};
	struct mp_handle share = { .size = sizeof(share), .handle = both };
	struct mp_notice notice = { .size = sizeof(notice), .handle = both };

	HOLDS(map_error(reader, PROT_READ | PROT_WRITE) == EACCES);
	HOLDS(map_error(reader, PROT_READ) == 0);
	HOLDS(map_error(both, PROT_READ | PROT_WRITE) == 0);
	HOLDS(copy_error(reader, 0) == 0 && copy_error(reader, MP_QUEUE_READ) == EACCES);
	HOLDS(copy_error(both, MP_QUEUE_READ) == 0 && copy_error(both, 0) == 0);
	/* Whoever writes there by a mapping reads there as well. */
	HOLDS(export_error(owned, MP_GRANT_WRITE) == EINVAL);
	HOLDS(at_error(MP_IOC_SEGMENT_PREPARE, both) == EACCES);
	HOLDS(at_error(MP_IOC_SEGMENT_PUBLISH, both) == EACCES);
	HOLDS(at_error(MP_IOC_SEGMENT_WITHDRAW, both) == EACCES);
	GIVES(EACCES, MP_IOC_NOTICE, &notice);
	GIVES(EACCES, MP_IOC_SEGMENT_REGISTER, &given);
	GIVES(EACCES, MP_IOC_SEGMENT_GRANT, &grant);
	GIVES(EACCES, MP_IOC_SEGMENT_SHARE, &share);
	HOLDS(export_error(reader, RIGHTS) == EACCES);
	HOLDS(imported(exported(reader, MP_GRANT_READ)).rights == MP_GRANT_READ);
	HOLDS(at_error(MP_IOC_SEGMENT_WITHDRAW, owned) == 0);
}

/* A descriptor keeps the memory when the owner has died; for all others the segment has ended. */
static void outlives_its_owner(void)
{
	int way, fd;
	pid_t pid = child(&way, 0);
	struct mp_import first, second, third;

	if (pid == 0) {
		uint32_t handle = publish(interface, 703, PAGE);

		map_at(segment(handle).offset, PAGE)[0] = 0x33;
		send_descriptor(way, exported(handle, RIGHTS));
		exit(0);
	}
	fd = receive_descriptor(way);
	succeeds(pid);
	HOLDS(connect_error(703) == ENOENT && is_free(703));
	first = imported(fd);
	second = imported(fd);
	HOLDS(map_at(segment(first.handle).offset, PAGE)[0] == 0x33);
	HOLDS(first.handle != second.handle);
	close(fd);
	on_handle(MP_IOC_CLOSE, first.handle);
	HOLDS(segment(second.handle).length == PAGE && segment(second.handle).connections == 0);
	HOLDS(map_at(segment(second.handle).offset, PAGE)[0] == 0x33);
	third = imported(exported(second.handle, RIGHTS));
	on_handle(MP_IOC_CLOSE, second.handle);
	HOLDS(map_at(segment(third.handle).offset, PAGE)[0] == 0x33);
}

/* When its owner closes a segment, peers reach it no more, whoever has a descriptor. */
static void ends_for_peers_with_its_owner(void)
{
	uint32_t handle = publish(interface, 704, PAGE);
	int fd = exported(handle, RIGHTS), copy = dup(fd);
	uint32_t to = connect_to(interface, MP_OBJECT_SEGMENT, 704, 0);

	HOLDS(remove_error(handle, 0) == EBUSY);
	close(fd);
	HOLDS(remove_error(handle, 0) == EBUSY);
	HOLDS(remove_error(handle, MP_REMOVE_FORCE) == 0);
	HOLDS(is_free(704) && connection(to).state & MP_CONNECTION_LOST);
	HOLDS(connect_error(704) == ENOENT && import_error(fd) == EBADF);
	HOLDS(segment(imported(copy).handle).length == PAGE);
}

/* A connection is made once more, with fewer rights, by a process of another user. */
static void hands_a_connection_over(void)
{
	uint32_t handle = publish(interface, 705, PAGE);
	uint32_t to = connect_to(interface, MP_OBJECT_SEGMENT, 705, 0);
	volatile uint64_t *memory = map_at(segment(handle).offset, PAGE);
	struct mp_notice notice = { .size = sizeof(notice), .deadline = MP_DEADLINE_NEVER };
	int way, fd, n;
	pid_t pid = child(&way, 1);

	if (pid == 0) {
		struct mp_import read = imported(receive_descriptor(way));
		struct mp_import both = imported(receive_descriptor(way));
		struct mp_connection info = connection(read.handle);

		HOLDS(read.object == MP_OBJECT_CONNECTION && read.rights == MP_GRANT_READ);
		HOLDS(info.rights == MP_GRANT_READ && info.offset == 0 && info.length == PAGE);
		HOLDS(export_error(read.handle, MP_GRANT_WRITE) == EACCES);
		info = connection(both.handle);
		HOLDS(both.rights == RIGHTS && info.offset != 0);
		map_at(info.offset, PAGE)[0] = 0x44;
		exit(0);
	}
	send_descriptor(way, exported(to, MP_GRANT_READ));
	fd = exported(to, RIGHTS);
	send_descriptor(way, fd);
	succeeds(pid);
	HOLDS(memory[0] == 0x44);
	/* Three have connected, and those of the child have left. */
	for (n = 0; n < 5; n++) {
		notice.handle = handle;
		GOES(MP_IOC_NOTICE, &notice);
	}
	HOLDS(segment(handle).connections == 1);
	on_handle(MP_IOC_CLOSE, handle);
	HOLDS(export_error(to, RIGHTS) == ECONNRESET && import_error(fd) == ENOENT);
}

/* What was granted to one partner goes on to another process, as long as there is that partner. */
static void hands_a_granted_connection_over(void)
{
	struct mp_segment_create create = {
		.size = sizeof(create), .flags = MP_SEGMENT_PRIVATE, .length = PAGE,
	};
	struct mp_segment_grant grant = { .size = sizeof(grant), .rights = RIGHTS };
	struct mp_connect connect = {
		.size = sizeof(connect), .flags = MP_CONNECT_GRANTED, .interface = interface,
		.object = MP_OBJECT_SEGMENT, .deadline = MP_DEADLINE_NEVER,
	};
	struct mp_import again;
	int fd;

	GOES(MP_IOC_SEGMENT_CREATE, &create);
	grant.segment = create.handle;
	HOLDS(at_error(MP_IOC_SEGMENT_PREPARE, create.handle) == 0);
	make_pair(interface, 0, &grant.session, &connect.session);
	GOES(MP_IOC_SEGMENT_GRANT, &grant);
	connect.number = grant.handle;
	GOES(MP_IOC_CONNECT, &connect);
	fd = exported(connect.handle, MP_GRANT_READ);
	again = imported(fd);
	HOLDS(connection(again.handle).rights == MP_GRANT_READ);
	HOLDS(segment(create.handle).connections == 2);
	on_handle(MP_IOC_CLOSE, connect.session);
	HOLDS(import_error(fd) == ECONNRESET);
	HOLDS(export_error(connect.handle, RIGHTS) == ECONNRESET);
	HOLDS(connection(again.handle).state & MP_CONNECTION_OPERATIONAL);
	on_handle(MP_IOC_CLOSE, grant.handle);
	HOLDS(connection(again.handle).state & MP_CONNECTION_LOST);
}

/* Notices are the owner's: one that does not take any keeps no peer away. */
static void keeps_nobody_away_by_notices(void)
{
	uint32_t handle = publish(interface, 708, PAGE), turn, n;
	uint32_t reader = imported(exported(handle, MP_GRANT_READ)).handle;
	struct mp_notice notice = { .size = sizeof(notice), .handle = handle };

	for (turn = 0; turn < 4200; turn++) {
		on_handle(MP_IOC_CLOSE, connect_to(interface, MP_OBJECT_SEGMENT, 708, 0));
		for (n = 0; n < 2; n++) {
			notice.deadline = MP_DEADLINE_NEVER;
			GOES(MP_IOC_NOTICE, &notice);
		}
	}
	has_nothing(reader, MP_EVENT_NOTICE);
}

/* A descriptor of a granted connection keeps neither the session nor its place. */
static void keeps_no_session(void)
{
	struct mp_info info = { .size = sizeof(info) };
	struct rlimit limit;
	uint32_t turn, turns;

	GOES(MP_IOC_INFO, &info);
	/* Some are waited for that are about to end. */
	turns = info.user_sessions_max + info.user_sessions_max / 4 + 1;
	HOLDS(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	limit.rlim_cur = limit.rlim_max;
	HOLDS(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	for (turn = 0; turn < turns; turn++) {
		struct mp_segment_create create = {
			.size = sizeof(create), .flags = MP_SEGMENT_PRIVATE, .length = PAGE,
		};
		struct mp_segment_grant grant = { .size = sizeof(grant), .rights = RIGHTS };
		struct mp_connect connect = {
			.size = sizeof(connect), .flags = MP_CONNECT_GRANTED, .interface = interface,
			.object = MP_OBJECT_SEGMENT, .deadline = MP_DEADLINE_NEVER,
		};

		GOES(MP_IOC_SEGMENT_CREATE, &create);
		grant.segment = create.handle;
		HOLDS(at_error(MP_IOC_SEGMENT_PREPARE, create.handle) == 0);
		make_pair(interface, 0, &grant.session, &connect.session);
		GOES(MP_IOC_SEGMENT_GRANT, &grant);
		connect.number = grant.handle;
		GOES(MP_IOC_CONNECT, &connect);
		exported(connect.handle, RIGHTS);
		on_handle(MP_IOC_CLOSE, connect.handle);
		on_handle(MP_IOC_CLOSE, connect.session);
		on_handle(MP_IOC_CLOSE, grant.session);
		on_handle(MP_IOC_CLOSE, grant.handle);
		on_handle(MP_IOC_CLOSE, create.handle);
	}
}

static void hands_an_event_over(void)
{
	struct mp_offer offer = {
		.size = sizeof(offer), .flags = MP_OFFER_ANY, .interface = interface,
		.object = MP_OBJECT_EVENT,
	};
	uint32_t to, server, client;

	GOES(MP_IOC_OFFER, &offer);
	to = connect_to(interface, MP_OBJECT_EVENT, offer.number, 0);
	HOLDS(export_error(to, MP_GRANT_READ) == EINVAL);
	on_handle(MP_IOC_SIGNAL, imported(exported(to, MP_GRANT_WRITE)).handle);
	HOLDS(wait_for(offer.handle, MP_EVENT_SIGNAL, MP_DEADLINE_NEVER) == MP_EVENT_SIGNAL);
	make_pair(interface, 0, &server, &client);
	HOLDS(export_error(offer.handle, RIGHTS) == EINVAL && export_error(server, RIGHTS) == EINVAL);
}

/* Descriptors count as segments of their maker, and not any more once they are closed. */
static void counts_descriptors(void)
{
	struct mp_info info = { .size = sizeof(info) };
	struct rlimit limit, few;
	uint32_t handle = publish(interface, 706, PAGE), turn;

	GOES(MP_IOC_INFO, &info);
	HOLDS(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	limit.rlim_cur = limit.rlim_max;
	HOLDS(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	for (turn = 0; turn < 2; turn++) {
		uint32_t made = 0;
		int last = -1;

		for (;;) {
			int error = export_error(handle, RIGHTS);

			if (error) {
				HOLDS(error == EDQUOT);
				break;
			}
			made++;
			HOLDS(made < info.user_segments_max);
		}
		HOLDS(made == info.user_segments_max - 1);
		/* All but the standard ones and the context. */
		last = fabric + (int)made;
		HOLDS(close_range(fabric + 1, last, 0) == 0);
	}
	few = limit;
	few.rlim_cur = fabric + 1;
	HOLDS(setrlimit(RLIMIT_NOFILE, &few) == 0);
	HOLDS(export_error(handle, RIGHTS) == EMFILE);
	HOLDS(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	HOLDS(export_error(handle, RIGHTS) == 0);
}

/* A connection over a link: the child writes what the parent has connected to. */
static void writes_to_a_peer(uint32_t id)
{
	uint32_t to = connect_to(interface, MP_OBJECT_SEGMENT, id, 0);
	struct mp_barrier barrier = { .size = sizeof(barrier), .deadline = MP_DEADLINE_NEVER };
	int way;
	pid_t pid = child(&way, 1);

	if (pid == 0) {
		barrier.target = imported(receive_descriptor(way)).handle;
		map_at(connection(barrier.target).offset, PAGE)[0] = 0x55;
		GOES(MP_IOC_BARRIER, &barrier);
		exit(0);
	}
	send_descriptor(way, exported(to, RIGHTS));
	on_handle(MP_IOC_CLOSE, to);
	succeeds(pid);
}

/* Nothing is left but a descriptor, until somebody ends the program. */
static void keeps_a_descriptor(void)
{
	exported(publish(interface, 707, PAGE), RIGHTS);
	close(fabric);
	puts("kept");
	fflush(stdout);
	pause();
}

static const struct {
	const char *name;
	void (*run)(void);
} scenarios[] = {
	{ "user", hands_a_segment_to_another_user },
	{ "accident", gives_nothing_by_accident },
	{ "rights", refuses_what_was_not_handed_over },
	{ "owner", outlives_its_owner },
	{ "end", ends_for_peers_with_its_owner },
	{ "notices", keeps_nobody_away_by_notices },
	{ "session", keeps_no_session },
	{ "connection", hands_a_connection_over },
	{ "granted", hands_a_granted_connection_over },
	{ "event", hands_an_event_over },
	{ "limits", counts_descriptors },
};

int main(int argc, char **argv)
{
	uint32_t n;

	HOLDS(argc == 2 || argc == 4);
	fabric = open_context();
	if (argc == 4) {
		interface = strtoul(argv[2], NULL, 0);
		writes_to_a_peer(strtoul(argv[3], NULL, 0));
		return 0;
	}
	interface = loopback();
	if (!strcmp(argv[1], "keep"))
		keeps_a_descriptor();
	for (n = 0; n < sizeof(scenarios) / sizeof(scenarios[0]); n++) {
		if (!strcmp(argv[1], scenarios[n].name)) {
			scenarios[n].run();
			return 0;
		}
	}
	HOLDS(!"a scenario of that name");
	return 1;
}
