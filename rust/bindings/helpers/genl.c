// SPDX-License-Identifier: GPL-2.0-only

#include <linux/netlink.h>
#include <net/genetlink.h>
#include <net/net_namespace.h>

/* --- messages --------------------------------------------------------------- */

__mp_helper struct sk_buff *mp_helper_genl_message_new(void)
{
	return genlmsg_new(GENLMSG_DEFAULT_SIZE, GFP_KERNEL);
}

__mp_helper void mp_helper_genl_message_free(struct sk_buff *skb)
{
	nlmsg_free(skb);
}

__mp_helper void *mp_helper_genl_put_answer(struct sk_buff *skb,
					    struct genl_info *info)
{
	return genlmsg_put_reply(skb, info, info->family, 0, info->genlhdr->cmd);
}

__mp_helper void *mp_helper_genl_put_entry(struct sk_buff *skb,
					   struct netlink_callback *cb)
{
	const struct genl_info *info = genl_info_dump(cb);

	return genlmsg_put(skb, info->snd_portid, info->snd_seq, info->family,
			   NLM_F_MULTI, info->genlhdr->cmd);
}

__mp_helper void *mp_helper_genl_put_event(struct sk_buff *skb,
					   const struct genl_family *family, u8 cmd)
{
	return genlmsg_put(skb, 0, 0, family, 0, cmd);
}

__mp_helper void mp_helper_genl_end(struct sk_buff *skb, void *hdr)
{
	genlmsg_end(skb, hdr);
}

__mp_helper void mp_helper_genl_cancel(struct sk_buff *skb, void *hdr)
{
	genlmsg_cancel(skb, hdr);
}

__mp_helper int mp_helper_genl_send_answer(struct sk_buff *skb, struct genl_info *info)
{
	return genlmsg_reply(skb, info);
}

__mp_helper int mp_helper_genl_send_event(struct genl_family *family,
					  struct sk_buff *skb)
{
	return genlmsg_multicast(family, skb, 0, 0, GFP_KERNEL);
}

/* Tells the listeners that they have missed an event. */
__mp_helper void mp_helper_genl_lose_event(struct genl_family *family)
{
	genl_set_err(family, &init_net, 0, 0, -ENOBUFS);
}

__mp_helper bool mp_helper_genl_is_heard(const struct genl_family *family)
{
	return genl_has_listeners(family, &init_net, 0);
}

/* --- answers that come later -------------------------------------------------- */

/* The number of the socket that has sent a request, and the request's header. */
__mp_helper u32 mp_helper_genl_asker(const struct genl_info *info, struct nlmsghdr *header)
{
	*header = *info->nlhdr;
	return info->snd_portid;
}

__mp_helper void *mp_helper_genl_put_late_answer(struct sk_buff *skb,
						 const struct genl_family *family,
						 u32 socket, u32 number, u8 cmd)
{
	return genlmsg_put(skb, socket, number, family, 0, cmd);
}

__mp_helper int mp_helper_genl_send_late(struct sk_buff *skb, u32 socket)
{
	return genlmsg_unicast(&init_net, skb, socket);
}

/* As netlink_ack(), which wants the request itself; the explanation may be NULL. */
__mp_helper int mp_helper_genl_refuse_late(u32 socket, const struct nlmsghdr *request,
					   int error, const char *why)
{
	size_t text = why ? nla_total_size(strlen(why) + 1) : 0;
	struct nlmsgerr *told;
	struct nlmsghdr *header;
	struct sk_buff *skb;

	skb = nlmsg_new(sizeof(*told) + text, GFP_KERNEL);
	if (!skb)
		return -ENOMEM;
	header = nlmsg_put(skb, socket, request->nlmsg_seq, NLMSG_ERROR, sizeof(*told),
			   NLM_F_CAPPED | (why ? NLM_F_ACK_TLVS : 0));
	if (!header || (why && nla_put_string(skb, NLMSGERR_ATTR_MSG, why))) {
		nlmsg_free(skb);
		return -EMSGSIZE;
	}
	told = nlmsg_data(header);
	told->error = error;
	told->msg = *request;
	nlmsg_end(skb, header);
	return genlmsg_unicast(&init_net, skb, socket);
}

/* Whether a socket of the first network namespace is closed, and its number. */
__mp_helper bool mp_helper_genl_is_closed(unsigned long action, void *data, u32 *socket)
{
	const struct netlink_notify *closed = data;

	if (action != NETLINK_URELEASE || closed->protocol != NETLINK_GENERIC ||
	    closed->net != &init_net)
		return false;
	*socket = closed->portid;
	return true;
}

/* --- attributes ------------------------------------------------------------- */

__mp_helper int mp_helper_nla_put_number(struct sk_buff *skb, int type, u64 value)
{
	return nla_put_uint(skb, type, value);
}

__mp_helper struct nlattr *mp_helper_nla_nest_begin(struct sk_buff *skb, int type)
{
	return nla_nest_start(skb, type);
}

__mp_helper void mp_helper_nla_nest_finish(struct sk_buff *skb, struct nlattr *start)
{
	nla_nest_end(skb, start);
}

__mp_helper void mp_helper_nla_nest_withdraw(struct sk_buff *skb, struct nlattr *start)
{
	nla_nest_cancel(skb, start);
}

/* --- requests --------------------------------------------------------------- */

__mp_helper u8 mp_helper_genl_command(const struct genl_info *info)
{
	return info->genlhdr->cmd;
}

__mp_helper bool mp_helper_genl_number(const struct genl_info *info, u32 type,
				       u32 *value)
{
	const struct nlattr *attr;

	if (type > info->family->maxattr)
		return false;
	attr = info->attrs[type];
	if (!attr || nla_len(attr) != sizeof(*value))
		return false;
	*value = nla_get_u32(attr);
	return true;
}

__mp_helper void mp_helper_genl_report_missing(const struct genl_info *info, u32 type)
{
	NL_SET_ERR_ATTR_MISS(info->extack, NULL, type);
}

/* The message has to be there for ever. */
__mp_helper void mp_helper_genl_report(const struct genl_info *info, const char *message)
{
	if (info->extack)
		info->extack->_msg = message;
}

__mp_helper u8 mp_helper_genl_dump_command(struct netlink_callback *cb)
{
	return genl_info_dump(cb)->genlhdr->cmd;
}

/* Where a dump stands; zero at its start. */
__mp_helper unsigned long *mp_helper_genl_dump_position(struct netlink_callback *cb)
{
	return (unsigned long *)&cb->args[0];
}
