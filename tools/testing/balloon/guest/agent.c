// SPDX-License-Identifier: GPL-2.0
/*
 * The agent: one request a line, one framed answer each.
 *
 *   request   <id> <command> [arguments]\n
 *   answer    \x02<id> <status> <length>\n<length bytes>
 *
 * status is 0, a positive errno, or for "sh" the exit status. On its start the
 * agent sends an answer with id 0 that holds the boot id, so that the host
 * notices a reboot. Blank lines are ignored: the host may send one to end
 * whatever line a restored VM had half read.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/reboot.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"

static char reply[512 * 1024];
static size_t reply_len;
static int serial_fd = -1;

static __printf(1, 2) void out(const char *fmt, ...)
{
	size_t room = sizeof(reply) - reply_len;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(reply + reply_len, room, fmt, ap);
	va_end(ap);
	if (n > 0)
		reply_len += (size_t)n < room ? (size_t)n : room - 1;
}

static char *next_word(char **args)
{
	char *word;

	do {
		word = strsep(args, " ");
	} while (word && !*word);
	return word;
}

static int cmd_ping(char *args)
{
	out("%s", args ? args : "");
	return 0;
}

static int append_file(const char *path)
{
	ssize_t n = read_file(path, reply + reply_len,
			      sizeof(reply) - reply_len);

	if (n < 0)
		return n;
	reply_len += n;
	return 0;
}

/* cat FILE...: the contents, one after the other. */
static int cmd_cat(char *args)
{
	char *path;
	int err = 0;

	while (!err && (path = next_word(&args)))
		err = append_file(path);
	return err;
}

/* write FILE TEXT: TEXT goes in one write, without a newline. */
static int cmd_write(char *args)
{
	char *path = next_word(&args);

	if (!path || !args)
		return -EINVAL;
	return write_file(path, args, strlen(args));
}

static int cmd_ls(char *args)
{
	char *path = next_word(&args);
	struct dirent *entry;
	DIR *dir;

	if (!path)
		return -EINVAL;
	dir = opendir(path);
	if (!dir)
		return -errno;
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			out("%s\n", entry->d_name);
	closedir(dir);
	return 0;
}

/* insmod NAME [PARAMETERS]: from /modules. */
static int cmd_insmod(char *args)
{
	char *name = next_word(&args);
	char path[256];

	if (!name)
		return -EINVAL;
	snprintf(path, sizeof(path), "/modules/%s.ko", name);
	return load_module(path, args ? args : "");
}

static int cmd_rmmod(char *args)
{
	char *name = next_word(&args);

	if (!name)
		return -EINVAL;
	if (syscall(SYS_delete_module, name, O_NONBLOCK) < 0)
		return -errno;
	return 0;
}

/* memory: meminfo, vmstat and buddyinfo, taken together. */
static int cmd_memory(char *args)
{
	int err;

	(void)args;
	err = append_file("/proc/meminfo");
	if (!err)
		err = append_file("/proc/vmstat");
	if (!err)
		err = append_file("/proc/buddyinfo");
	return err;
}

static void task_line(const char *pid)
{
	char path[64], stat[512];
	char *name, *rest;
	unsigned long utime, stime;
	char state;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
	n = read_file(path, stat, sizeof(stat) - 1);
	if (n <= 0)
		return;
	stat[n] = '\0';
	name = strchr(stat, '(');
	rest = strrchr(stat, ')');
	if (!name || !rest)
		return;
	*rest++ = '\0';
	if (sscanf(rest, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
		   &state, &utime, &stime) != 3)
		return;
	out("%s %c %lu %s\n", pid, state, utime + stime, name + 1);
}

/* tasks: "pid state ticks name" for every process and kernel thread. */
static int cmd_tasks(char *args)
{
	struct dirent *entry;
	DIR *dir;

	(void)args;
	dir = opendir("/proc");
	if (!dir)
		return -errno;
	while ((entry = readdir(dir)))
		if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9')
			task_line(entry->d_name);
	closedir(dir);
	return 0;
}

/* dmesg: the kernel log from its start. */
static int cmd_dmesg(char *args)
{
	char record[8192];
	ssize_t n;
	int fd;

	(void)args;
	fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	for (;;) {
		n = read(fd, record, sizeof(record));
		if (n < 0 && errno == EPIPE)
			continue;
		if (n <= 0)
			break;
		out("%.*s", (int)n, record);
	}
	close(fd);
	return 0;
}

/* job KIND ARGUMENTS: start it, answer its number. */
static int cmd_job(char *args)
{
	char *kind = next_word(&args);
	int slot;

	if (!kind)
		return -EINVAL;
	slot = job_start(kind, args);
	if (slot < 0)
		return slot;
	out("%d", slot);
	return 0;
}

static int slot_arg(char **args)
{
	char *word = next_word(args);

	return word ? atoi(word) : -1;
}

/* stat JOB: "running|exited|killed code progress value ready". */
static int cmd_stat(char *args)
{
	char line[128];
	int err;

	err = job_describe(slot_arg(&args), line, sizeof(line));
	if (!err)
		out("%s", line);
	return err;
}

/* take JOB: as stat, and the value starts again from 0. */
static int cmd_take(char *args)
{
	int slot = slot_arg(&args);
	char line[128];
	int err;

	err = job_describe(slot, line, sizeof(line));
	if (err)
		return err;
	out("%s", line);
	return job_clear(slot);
}

/* kill JOB: returns when the process is gone. */
static int cmd_kill(char *args)
{
	return job_stop(slot_arg(&args));
}

/* run KIND ARGUMENTS: a job, and wait for its end. */
static int cmd_run(char *args)
{
	char *kind = next_word(&args);
	char line[128];
	int slot, err;

	if (!kind)
		return -EINVAL;
	slot = job_start(kind, args);
	if (slot < 0)
		return slot;
	err = job_wait(slot);
	if (!job_describe(slot, line, sizeof(line)))
		out("%s", line);
	job_stop(slot);
	return err;
}

static void shell_child(int fd, const char *script)
{
	dup2(fd, 1);
	dup2(fd, 2);
	set_oom_adj(0);
	setenv("PATH", "/bin:/sbin", 1);
	execl("/bin/busybox", "sh", "-c", script, NULL);
	_exit(127);
}

/* sh COMMANDS: through busybox; output and errors together. */
static int cmd_sh(char *args)
{
	int fds[2], status;
	ssize_t n;
	pid_t pid;

	if (!args)
		return -EINVAL;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid == 0)
		shell_child(fds[1], args);
	close(fds[1]);
	if (pid < 0) {
		close(fds[0]);
		return -EAGAIN;
	}
	for (;;) {
		n = read(fds[0], reply + reply_len, sizeof(reply) - reply_len);
		if (n <= 0)
			break;
		reply_len += n;
	}
	close(fds[0]);
	if (waitpid(pid, &status, 0) < 0)
		return -errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* suspend mem|disk: answers after the resume. */
static int cmd_suspend(char *args)
{
	char *state = next_word(&args);

	if (!state)
		return -EINVAL;
	return write_file("/sys/power/state", state, strlen(state));
}

static int cmd_poweroff(char *args)
{
	(void)args;
	sync();
	return reboot(RB_POWER_OFF) ? -errno : 0;
}

static int cmd_reboot(char *args)
{
	(void)args;
	sync();
	return reboot(RB_AUTOBOOT) ? -errno : 0;
}

static const struct {
	const char *name;
	int (*run)(char *args);
} commands[] = {
	{ "ping", cmd_ping },
	{ "cat", cmd_cat },
	{ "write", cmd_write },
	{ "ls", cmd_ls },
	{ "insmod", cmd_insmod },
	{ "rmmod", cmd_rmmod },
	{ "memory", cmd_memory },
	{ "tasks", cmd_tasks },
	{ "dmesg", cmd_dmesg },
	{ "job", cmd_job },
	{ "stat", cmd_stat },
	{ "take", cmd_take },
	{ "kill", cmd_kill },
	{ "run", cmd_run },
	{ "sh", cmd_sh },
	{ "suspend", cmd_suspend },
	{ "poweroff", cmd_poweroff },
	{ "reboot", cmd_reboot },
};

static int write_all(const char *buf, size_t len)
{
	ssize_t n;

	while (len) {
		n = write(serial_fd, buf, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -EIO;
		buf += n;
		len -= n;
	}
	return 0;
}

static int answer(unsigned long id, int status)
{
	char head[64];
	int len;

	len = snprintf(head, sizeof(head), "\x02%lu %d %zu\n", id,
		       status < 0 ? -status : status, reply_len);
	if (write_all(head, len))
		return -EIO;
	return write_all(reply, reply_len);
}

static int serve(char *line)
{
	char *rest = line;
	char *id_word = next_word(&rest);
	char *name = next_word(&rest);
	int status = -EOPNOTSUPP;
	size_t i;

	if (!id_word || !name)
		return 0;
	reply_len = 0;
	for (i = 0; i < ARRAY_SIZE(commands); i++) {
		if (strcmp(commands[i].name, name))
			continue;
		status = commands[i].run(rest);
		break;
	}
	return answer(strtoul(id_word, NULL, 10), status);
}

/* Returns the length of the line, 0 for one that was too long, or an error. */
static int read_line(char *line, size_t size)
{
	size_t len = 0;
	ssize_t n;
	char c;

	for (;;) {
		n = read(serial_fd, &c, 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -EIO;
		if (c == '\n')
			break;
		if (len < size)
			line[len] = c;
		len++;
	}
	if (len >= size)
		len = 0;
	line[len] = '\0';
	return len;
}

static int hello(void)
{
	int err;

	reply_len = 0;
	err = append_file("/proc/sys/kernel/random/boot_id");
	return err ? err : answer(0, 0);
}

static int serve_line(const char *path)
{
	static char line[4096];
	int err;

	serial_fd = open_serial(path);
	if (serial_fd < 0)
		return serial_fd;
	err = hello();
	while (!err) {
		err = read_line(line, sizeof(line));
		if (err > 0)
			err = serve(line);
	}
	close(serial_fd);
	return err;
}

void agent_run(const char *serial)
{
	char path[80];
	int err;

	snprintf(path, sizeof(path), "/dev/%s", serial);
	signal(SIGPIPE, SIG_IGN);
	if (jobs_init())
		log_line("<3>agent: no memory for the job table\n");
	mlockall(MCL_CURRENT | MCL_FUTURE);
	for (;;) {
		err = serve_line(path);
		log_line("<4>agent: %s: %s, opening it again\n", path,
			 strerror(-err));
		sleep_ms(200);
	}
}
