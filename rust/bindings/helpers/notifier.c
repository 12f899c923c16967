// SPDX-License-Identifier: GPL-2.0

#include <linux/module.h>
#include <linux/reboot.h>

__mp_helper int mp_helper_module_notifier_add(struct notifier_block *block)
{
	return register_module_notifier(block);
}

__mp_helper void mp_helper_module_notifier_del(struct notifier_block *block)
{
	unregister_module_notifier(block);
}

__mp_helper bool mp_helper_module_goes(unsigned long state)
{
	return state == MODULE_STATE_GOING;
}

__mp_helper int mp_helper_reboot_notifier_add(struct notifier_block *block)
{
	return register_reboot_notifier(block);
}

__mp_helper void mp_helper_reboot_notifier_del(struct notifier_block *block)
{
	unregister_reboot_notifier(block);
}
