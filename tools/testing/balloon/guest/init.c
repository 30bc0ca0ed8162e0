// SPDX-License-Identifier: GPL-2.0
/*
 * pid 1 of the test guest.
 *
 * The kernel command line says what to do:
 *   guest.modules=a,b:param=1,c   load /modules/{a,b,c}.ko in this order
 *   guest.agent=ttyS1             serial line of the agent
 *   guest.shell                   a shell on the console as well
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"

static const struct {
	const char *type;
	const char *dir;
	const char *options;
} mounts[] = {
	{ "devtmpfs", "/dev", NULL },
	{ "proc", "/proc", NULL },
	{ "sysfs", "/sys", NULL },
	{ "debugfs", "/sys/kernel/debug", NULL },
	{ "tracefs", "/sys/kernel/tracing", NULL },
	{ "cgroup2", "/sys/fs/cgroup", NULL },
	{ "tmpfs", "/tmp", "size=90%" },
};

static void mount_all(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(mounts); i++) {
		mkdir(mounts[i].dir, 0755);
		if (mount(mounts[i].type, mounts[i].dir, mounts[i].type, 0,
			  mounts[i].options) < 0)
			log_line("<4>init: cannot mount %s on %s: %s\n",
				 mounts[i].type, mounts[i].dir, strerror(errno));
	}
}

/*
 * The guest boots on one CPU: QEMU 7.2 may run stale code where the kernel
 * patches itself while another CPU translates the same page, and most of the
 * patching is done at boot ("Oops: int3" in about one boot of forty).
 */
static void online_cpus(void)
{
	char path[64];
	int cpu;

	for (cpu = 1;; cpu++) {
		snprintf(path, sizeof(path),
			 "/sys/devices/system/cpu/cpu%d/online", cpu);
		if (access(path, W_OK))
			return;
		if (write_file(path, "1", 1))
			log_line("<3>init: cannot start CPU %d\n", cpu);
	}
}

static void load_modules(void)
{
	char list[1024], path[300];
	char *word, *save, *params;
	int err;

	if (cmdline_value("guest.modules", list, sizeof(list)))
		return;
	for (word = strtok_r(list, ",", &save); word;
	     word = strtok_r(NULL, ",", &save)) {
		params = strchr(word, ':');
		if (params)
			*params++ = '\0';
		snprintf(path, sizeof(path), "/modules/%s.ko", word);
		err = load_module(path, params ? params : "");
		if (err)
			log_line("<3>init: cannot load %s: %s\n", path,
				 strerror(-err));
	}
}

static pid_t start_agent(const char *serial)
{
	pid_t pid = fork();

	if (pid == 0) {
		agent_run(serial);
		_exit(1);
	}
	return pid;
}

static pid_t start_shell(void)
{
	pid_t pid = fork();
	int fd;

	if (pid)
		return pid;
	setsid();
	fd = open("/dev/ttyS0", O_RDWR);
	if (fd < 0)
		_exit(1);
	ioctl(fd, TIOCSCTTY, 1);
	dup2(fd, 0);
	dup2(fd, 1);
	dup2(fd, 2);
	set_oom_adj(0);
	setenv("PATH", "/bin:/sbin", 1);
	setenv("HOME", "/", 1);
	setenv("PS1", "guest# ", 1);
	execl("/bin/busybox", "sh", "-i", NULL);
	_exit(1);
}

int main(void)
{
	char serial[64] = "ttyS1";
	char scratch[8];
	pid_t agent, shell = -1, pid;
	int want_shell;

	mount_all();
	set_oom_adj(-1000);
	mlockall(MCL_CURRENT | MCL_FUTURE);
	cmdline_value("guest.agent", serial, sizeof(serial));
	want_shell = !cmdline_value("guest.shell", scratch, sizeof(scratch));
	online_cpus();
	load_modules();

	agent = start_agent(serial);
	if (want_shell)
		shell = start_shell();
	for (;;) {
		pid = wait(NULL);
		if (pid < 0)
			sleep_ms(1000);
		if (pid < 0 || pid == agent)
			agent = start_agent(serial);
		if (want_shell && pid > 0 && pid == shell)
			shell = start_shell();
	}
}
