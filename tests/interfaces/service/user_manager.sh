#!/bin/bash
# user_manager.sh HOME COMMAND...: runs a command under a systemd user manager of its own, in namespaces of its own.
# As root, who then has no capability left, as any user. Not there: journald, logind and with it lingering.
set -u
export HOME=$1
shift
exec unshare --mount --pid --fork --cgroup --mount-proc --propagation private bash -c '
mount -t tmpfs tmpfs /run
runtime=/run/user/$(id -u)
mkdir -p /run/systemd/system "$runtime"
chmod 700 "$runtime"
umount -l /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup
group=/sys/fs/cgroup/kbsync-test-$$-$RANDOM
mkdir -p "$group/init"
echo $$ >"$group/init/cgroup.procs"
cat >/run/session <<"END"
/lib/systemd/systemd --user --log-target=console --log-level="${SYSTEMD_LOG:-warning}" --unit=basic.target &
manager=$!
for _ in $(seq 100); do
    systemctl --user is-system-running >/dev/null 2>&1 && break
    sleep 0.1
done
"$@"
code=$?
systemctl --user exit
wait $manager
exit $code
END
env -u DBUS_SESSION_BUS_ADDRESS XDG_RUNTIME_DIR="$runtime" \
    setpriv --bounding-set=-all --inh-caps=-all --ambient-caps=-all bash /run/session "$@"
code=$?
echo $$ >/sys/fs/cgroup/cgroup.procs
find "$group" -depth -type d -exec rmdir {} \; 2>/dev/null
exit $code' session "$@"
