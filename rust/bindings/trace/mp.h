/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tracepoints of the fabric, see Documentation/tracing.md. Their Rust side is
 * rust/abstractions/trace.rs.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM mp

#if !defined(_MP_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _MP_TRACE_H

#include <linux/tracepoint.h>

TRACE_EVENT(mp_link_state,
	TP_PROTO(u32 bridge, u32 port, bool up, const char *reason),
	TP_ARGS(bridge, port, up, reason),
	TP_STRUCT__entry(
		__field(u32, bridge)
		__field(u32, port)
		__field(bool, up)
		__string(reason, reason)
	),
	TP_fast_assign(
		__entry->bridge = bridge;
		__entry->port = port;
		__entry->up = up;
		__assign_str(reason);
	),
	TP_printk("bridge=%u port=%u up=%d reason=%s", __entry->bridge,
		  __entry->port, __entry->up, __get_str(reason))
);

DECLARE_EVENT_CLASS(mp_frame,
	TP_PROTO(u32 src, u32 dst, u32 func, u32 len, u32 queue, bool priority),
	TP_ARGS(src, dst, func, len, queue, priority),
	TP_STRUCT__entry(
		__field(u32, src)
		__field(u32, dst)
		__field(u32, func)
		__field(u32, len)
		__field(u32, queue)
		__field(bool, priority)
	),
	TP_fast_assign(
		__entry->src = src;
		__entry->dst = dst;
		__entry->func = func;
		__entry->len = len;
		__entry->queue = queue;
		__entry->priority = priority;
	),
	TP_printk("src=%08x dst=%08x func=%#x len=%u queue=%u priority=%d",
		  __entry->src, __entry->dst, __entry->func, __entry->len,
		  __entry->queue, __entry->priority)
);

DEFINE_EVENT(mp_frame, mp_frame_send,
	TP_PROTO(u32 src, u32 dst, u32 func, u32 len, u32 queue, bool priority),
	TP_ARGS(src, dst, func, len, queue, priority)
);

DEFINE_EVENT(mp_frame, mp_frame_receive,
	TP_PROTO(u32 src, u32 dst, u32 func, u32 len, u32 queue, bool priority),
	TP_ARGS(src, dst, func, len, queue, priority)
);

DEFINE_EVENT(mp_frame, mp_ring_full,
	TP_PROTO(u32 src, u32 dst, u32 func, u32 len, u32 queue, bool priority),
	TP_ARGS(src, dst, func, len, queue, priority)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE mp
#include <trace/define_trace.h>
