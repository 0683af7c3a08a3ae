#!/bin/bash
# A cluster in a box: hosts of unequal speed on one switch, on this machine.
#
#   box.sh [-f HOSTS] COMMAND...   runs COMMAND on the host "coordinator" with the cluster up, then removes everything
#   box.sh --check                 says whether this machine allows it, and if not, why
#
# Inside COMMAND, `on HOST COMMAND...` runs a program on a host, and $BOX_DIR/hosts lists addresses and names. A host is
# a network namespace with a name of its own and a cgroup that limits its CPU time and pins it to a core; files are
# shared. "coordinator" has neither limit. The network leads nowhere else.
#
# HOSTS has a line per host: name, percent of full speed, core, rate of its port each way ("200mbit"), and, if it is to be
# limited, memory in MiB. The default:
#   A 100 0 1gbit
#   B  50 1 1gbit
#   C  25 1 200mbit
# Environment: BOX_FULL=80, the percent of a core that full speed is (the rest is for the network and the system; the
# hosts of one core must not ask for more than it has); BOX_PERIOD=10000, us in which a host gets its share of time.
#
# Needs root, iproute2, util-linux, and cgroups (version 1 or 2) with the cpu and cpuset controllers (and memory, for a limit).
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
hosts="A 100 0 1gbit
B 50 1 1gbit
C 25 1 200mbit"
full=${BOX_FULL:-80} period=${BOX_PERIOD:-10000}
strong=65536   # a quota is only a limit: this weight makes the kernel give the hosts their time before others
child=

fail() { echo "box.sh: $*" >&2; exit 1; }

usage() { sed -n '2,/^set -u/{/^set -u/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; }

# Where a version 1 controller is mounted; nothing when it is not.
mount_of() { awk -v want="$1" '$3 == "cgroup" && "," $4 "," ~ "," want "," { print $2; exit }' /proc/self/mounts; }

# Sets BOX_CGROUPS, the folders below which each host has a group of its own.
make_cgroups() {
  local cpu cpuset root
  cpu=$(mount_of cpu) cpuset=$(mount_of cpuset) memory=$(mount_of memory)
  if [ -n "$cpu" ] && [ -n "$cpuset" ]; then
    version=1
    cpu_group=$cpu/$BOX_ID cpuset_group=$cpuset/$BOX_ID memory_group=${memory:+$memory/$BOX_ID}
    BOX_CGROUPS="$cpu_group $cpuset_group $memory_group"
    mkdir $BOX_CGROUPS || fail "cannot make cgroups in $cpu, $cpuset and $memory"
    cpus=$(cat "$cpuset/cpuset.cpus") mems=$(cat "$cpuset/cpuset.mems")
    put "$mems" "$cpuset_group/cpuset.mems"
    put "$cpus" "$cpuset_group/cpuset.cpus"
    put "$strong" "$cpu_group/cpu.shares"
    return
  fi
  root=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/self/mounts)
  [ -n "$root" ] || fail "no cgroups are mounted that limit CPU time"
  version=2
  BOX_CGROUPS="$root/$BOX_ID"
  put "+cpu +cpuset +memory" "$root/cgroup.subtree_control"
  mkdir "$BOX_CGROUPS" || fail "cannot make a cgroup in $root"
  put "+cpu +cpuset +memory" "$BOX_CGROUPS/cgroup.subtree_control"
  put 10000 "$BOX_CGROUPS/cpu.weight"
}

put() {
  { echo "$1" > "$2"; } 2> /dev/null || fail "cannot write $1 to $2: this machine does not let us limit CPU time"
}

# limit NAME PERCENT [CORE [MEMORY]]: the group of a host. 0 percent is no limit; memory in MiB.
limit() {
  local group quota=$(($2 * full * period / 10000))
  [ "$2" = 0 ] || [ "$quota" -ge 1000 ] ||
    fail "$1: $2 % of full speed is less than 1 ms in $period us, which the kernel refuses: raise BOX_PERIOD"
  for group in $BOX_CGROUPS; do
    mkdir "$group/$1" || fail "cannot make the cgroup $group/$1"
  done
  if [ "$version" = 1 ]; then
    put "$mems" "$cpuset_group/$1/cpuset.mems"
    put "${3:-$cpus}" "$cpuset_group/$1/cpuset.cpus"
    [ -z "${4:-}" ] || put "${4}M" "${memory_group:?no cgroups are mounted that limit memory}/$1/memory.limit_in_bytes"
    [ "$2" = 0 ] && return
    put -1 "$cpu_group/$1/cpu.cfs_quota_us"
    put "$period" "$cpu_group/$1/cpu.cfs_period_us"
    put "$quota" "$cpu_group/$1/cpu.cfs_quota_us"
  else
    [ -z "${3:-}" ] || put "$3" "$BOX_CGROUPS/$1/cpuset.cpus"
    [ -z "${4:-}" ] || put "${4}M" "$BOX_CGROUPS/$1/memory.max"
    [ "$2" = 0 ] || put "$quota $period" "$BOX_CGROUPS/$1/cpu.max"
  fi
}

# plug NAME NUMBER [RATE]: a namespace, and a cable from it to the switch.
plug() {
  local space=$BOX_ID-$1 switch=$BOX_ID-switch burst=128kb
  ip netns add "$space" && ip -n "$space" link set lo up || fail "cannot make the network namespace $space"
  ip -n "$space" link add eth0 type veth peer name "port$2" netns "$switch" &&
    ip -n "$switch" link set "port$2" master bridge up &&
    ip -n "$space" address add "10.77.0.$2/24" dev eth0 && ip -n "$space" link set eth0 up ||
    fail "cannot join $1 to the switch"
  echo "10.77.0.$2 $1" >> "$BOX_DIR/hosts"
  [ -n "${3:-}" ] || return 0
  case $3 in *gbit) ;; *) burst=32kb ;; esac
  # A bucket shapes what leaves an interface, so one at each end of the cable.
  tc -n "$space" qdisc add dev eth0 root tbf rate "$3" burst $burst latency 10ms &&
    tc -n "$switch" qdisc add dev "port$2" root tbf rate "$3" burst $burst latency 10ms ||
    fail "cannot limit the rate of $1 to $3"
}

start() {
  local tool name percent core rate memory number=1
  [ "$(id -u)" = 0 ] || fail "namespaces and cgroups need root: run it with sudo"
  for tool in ip tc nsenter unshare awk; do
    command -v "$tool" > /dev/null || fail "$tool is missing: install iproute2 and util-linux"
  done
  export BOX_ID=box$$ BOX_DIR BOX_CGROUPS
  BOX_DIR=$(mktemp -d "${TMPDIR:-/tmp}/motley-box.XXXXXX") || fail "cannot make a folder for the box"
  echo "127.0.0.1 localhost" > "$BOX_DIR/hosts"
  make_cgroups
  ip netns add "$BOX_ID-switch" &&
    ip -n "$BOX_ID-switch" link add bridge type bridge forward_delay 0 stp_state 0 &&
    ip -n "$BOX_ID-switch" link set bridge up || fail "cannot make network namespaces and a switch"
  limit coordinator 0 && plug coordinator 1
  while read -r name percent core rate memory; do
    [[ $name =~ ^[A-Za-z0-9-]+$ && $percent =~ ^[1-9][0-9]*$ && $core =~ ^[0-9]+$ && -n $rate &&
      $memory =~ ^[0-9]*$ ]] ||
      fail "hosts: \"$name $percent $core $rate $memory\" is not \"name percent core rate [memory]\""
    [ "$core" -lt "$(nproc --all)" ] || fail "$name wants core $core, and this machine has $(nproc --all)"
    number=$((number + 1))
    limit "$name" "$percent" "$core" "$memory" && plug "$name" $number "$rate"
  done <<< "$hosts"
}

stop() {
  trap - EXIT
  trap '' INT TERM HUP
  local group host attempt
  if [ -n "$child" ]; then   # its own clean-up comes first, for ten seconds at most
    kill -TERM "$child" 2> /dev/null
    for attempt in $(seq 100); do kill -0 "$child" 2> /dev/null || break; sleep 0.1; done
  fi
  for attempt in $(seq 50); do
    for group in ${BOX_CGROUPS:-}; do
      for host in "$group"/*/; do
        { xargs -r kill -KILL < "$host/cgroup.procs"; } 2> /dev/null
        rmdir "$host" 2> /dev/null
      done
      [ ! -d "$group" ] || rmdir "$group" 2> /dev/null
    done
    ls -d ${BOX_CGROUPS:-} > /dev/null 2>&1 || break
    sleep 0.1
  done
  [ -z "${BOX_ID:-}" ] || ip netns list | awk -v id="$BOX_ID-" 'index($1, id) == 1 { print $1 }' |
    xargs -r -n 1 ip netns delete
  [ -z "${BOX_DIR:-}" ] || rm -rf "$BOX_DIR"
}

check=
case ${1:-} in
  --check) check=1; shift ;;
  -h | --help) usage; exit ;;
  -f)
    hosts=$(grep -v '^ *\(#\|$\)' "${2:-}") || fail "no hosts in ${2:-}"
    shift 2
    ;;
esac
[ -n "$check" ] || [ $# -gt 0 ] || { usage >&2; exit 2; }
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
start
if [ -n "$check" ]; then
  "$here/on" A true || fail "a program does not run on a host"
  echo "box.sh: this machine can hold the cluster (cgroups version $version)"
  exit
fi
export PATH="$here:$PATH"
# In the background, because bash runs traps only between commands.
"$here/on" coordinator "$@" <&0 &
child=$!
wait $child
code=$?
child=
exit $code
