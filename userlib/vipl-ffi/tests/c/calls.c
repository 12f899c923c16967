/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Calls every function of the library on a system without the fabric, as a program in C does:
 * calls LIBRARY. Prints what differs from what it should be, and fails then.
 */

#include <vipl.h>

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

#define IS(call, expected) compare(#call, (call), #expected, (expected))

static void compare(const char *call, VIP_RETURN result, const char *name, VIP_RETURN expected)
{
	if (result != expected) {
		printf("%s is %d, not %s\n", call, (int)result, name);
		failures++;
	}
}

static void error_handler(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
	(void)context;
	(void)error;
}

static void queue_handler(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi,
	VIP_DESCRIPTOR *descriptor)
{
	(void)context;
	(void)nic;
	(void)vi;
	(void)descriptor;
}

static void cq_handler(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi, VIP_BOOLEAN receive)
{
	(void)context;
	(void)nic;
	(void)vi;
	(void)receive;
}

/* No function takes what is no handle, and none writes more than NULL then. */
static void refuse(void *handle)
{
	VIP_NIC_ATTRIBUTES nic_attributes;
	VIP_VI_ATTRIBUTES vi_attributes = {VIP_SERVICE_RELIABLE_DELIVERY, 1024, NULL, NULL, 0, 0};
	VIP_MEM_ATTRIBUTES mem_attributes = {NULL, 0, 0};
	VIP_AUTODISCOVERY_LIST list = {1, NULL, 0};
	VIP_NET_ADDRESS *address = calloc(1, 64), *other = calloc(1, 64);
	VIP_DESCRIPTOR posted, *descriptor = &posted;
	VIP_VI_STATE state = VIP_STATE_ERROR;
	VIP_BOOLEAN flag = 7;
	VIP_ULONG len = 16;
	VIP_MEM_HANDLE memory = 7;
	void *made = &flag;
	char name[16] = "rp";

	memset(&posted, 0, sizeof(posted));
	memset(&nic_attributes, 0x5A, sizeof(nic_attributes));
	IS(VipCloseNic(handle), VIP_INVALID_PARAMETER);
	IS(VipCreateVi(handle, &vi_attributes, NULL, NULL, &made), VIP_INVALID_PARAMETER);
	IS(VipDestroyVi(handle), VIP_INVALID_PARAMETER);
	IS(VipConnectWait(handle, address, 0, other, &vi_attributes, &made),
		VIP_INVALID_PARAMETER);
	IS(VipConnectAccept(handle, handle), VIP_INVALID_PARAMETER);
	IS(VipConnectReject(handle), VIP_INVALID_PARAMETER);
	IS(VipConnectRequest(handle, address, other, 100, &vi_attributes), VIP_INVALID_PARAMETER);
	IS(VipDisconnect(handle), VIP_INVALID_PARAMETER);
	IS(VipConnectPeerRequest(handle, address, other, 100), VIP_INVALID_PARAMETER);
	IS(VipConnectPeerDone(handle, &vi_attributes), VIP_INVALID_PARAMETER);
	IS(VipConnectPeerWait(handle, &vi_attributes), VIP_INVALID_PARAMETER);
	IS(VipCreatePtag(handle, &made), VIP_INVALID_PARAMETER);
	IS(VipDestroyPtag(handle, handle), VIP_INVALID_PARAMETER);
	IS(VipRegisterMem(handle, name, sizeof(name), &mem_attributes, &memory),
		VIP_INVALID_PARAMETER);
	IS((VIP_RETURN)memory, (VIP_RETURN)0);
	IS(VipDeregisterMem(handle, name, 1), VIP_INVALID_PARAMETER);
	IS(VipPostSend(handle, &posted, 1), VIP_INVALID_PARAMETER);
	IS(VipSendDone(handle, &descriptor), VIP_INVALID_PARAMETER);
	IS(VipSendWait(handle, VIP_INFINITE, &descriptor), VIP_INVALID_PARAMETER);
	IS(VipPostRecv(handle, &posted, 1), VIP_INVALID_PARAMETER);
	IS(VipRecvDone(handle, &descriptor), VIP_INVALID_PARAMETER);
	IS(VipRecvWait(handle, VIP_INFINITE, &descriptor), VIP_INVALID_PARAMETER);
	IS(VipCQDone(handle, &made, &flag), VIP_INVALID_PARAMETER);
	IS(VipCQWait(handle, VIP_INFINITE, &made, &flag), VIP_INVALID_PARAMETER);
	IS(VipSendNotify(handle, NULL, queue_handler), VIP_INVALID_PARAMETER);
	IS(VipRecvNotify(handle, NULL, queue_handler), VIP_INVALID_PARAMETER);
	IS(VipCQNotify(handle, NULL, cq_handler), VIP_INVALID_PARAMETER);
	IS(VipCreateCQ(handle, 16, &made), VIP_INVALID_PARAMETER);
	IS(VipDestroyCQ(handle), VIP_INVALID_PARAMETER);
	IS(VipResizeCQ(handle, 16), VIP_INVALID_PARAMETER);
	IS(VipQueryNic(handle, &nic_attributes), VIP_INVALID_PARAMETER);
	IS(VipSetViAttributes(handle, &vi_attributes), VIP_INVALID_PARAMETER);
	IS(VipQueryVi(handle, &state, &vi_attributes, &flag, &flag), VIP_INVALID_PARAMETER);
	IS(VipSetMemAttributes(handle, name, 1, &mem_attributes), VIP_INVALID_PARAMETER);
	IS(VipQueryMem(handle, name, 1, &mem_attributes), VIP_INVALID_PARAMETER);
	IS(VipQuerySystemManagementInfo(handle, VIP_SMI_AUTODISCOVERY, &list),
		VIP_INVALID_PARAMETER);
	IS(VipErrorCallback(handle, NULL, error_handler), VIP_INVALID_PARAMETER);
	IS(VipNSInit(handle, NULL), VIP_INVALID_PARAMETER);
	IS(VipNSGetHostByName(handle, name, address, 0), VIP_INVALID_PARAMETER);
	IS(VipNSGetHostByAddr(handle, address, name, &len), VIP_INVALID_PARAMETER);
	IS(VipNSShutdown(handle), VIP_INVALID_PARAMETER);

	/* What they would have written is as it was. */
	IS((VIP_RETURN)(descriptor == &posted && made == &flag && len == 16 && flag == 7 &&
		state == VIP_STATE_ERROR && !strcmp(name, "rp") &&
		nic_attributes.MaxVI == 0x5A5A5A5A5A5A5A5AUL), (VIP_RETURN)1);
	free(address);
	free(other);
}

int main(int argc, char **argv)
{
	static char elsewhere[64];
	VIP_NIC_HANDLE nic = elsewhere;
	void *library;

	library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	if (!library || dlsym(library, "VipOpenNic") != (void *)(uintptr_t)&VipOpenNic) {
		printf("not the library that this is linked to: %s\n", dlerror());
		return 1;
	}
	IS(VipOpenNic(NULL, &nic), VIP_INVALID_PARAMETER);
	IS(VipOpenNic(VINICBASENAME, NULL), VIP_INVALID_PARAMETER);
	IS(VipOpenNic("", &nic), VIP_INVALID_PARAMETER);
	IS(VipOpenNic("eth0", &nic), VIP_INVALID_PARAMETER);
	IS(VipOpenNic("VINICx", &nic), VIP_INVALID_PARAMETER);
	/* There is no fabric here. */
	IS(VipOpenNic(VINICBASENAME, &nic), VIP_ERROR_RESOURCE);
	IS(VipOpenNic("VINIC0", &nic), VIP_ERROR_RESOURCE);
	IS((VIP_RETURN)(nic == elsewhere), (VIP_RETURN)1);

	refuse(NULL);
	refuse(elsewhere);
	refuse((void *)1);
	refuse((void *)~(uintptr_t)0);
	refuse((void *)(uintptr_t)0x71A2000000000001UL);
	refuse((void *)(uintptr_t)0x71A3000000000001UL);
	dlclose(library);
	return failures ? 1 : 0;
}
