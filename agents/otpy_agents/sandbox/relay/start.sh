# Inside a sandbox without a network: start the relay, wait until it has proved the way out, and
# become the command. Called as: sh FOLDER/start.sh PORT ALLOWED REFUSED COMMAND...
folder=${0%/*} port=$1 allowed=$2 refused=$3
shift 3

refuse() {
  echo "otpy: $1" >&2
  exit 125
}

[ -r /proc/net/route ] || refuse "cannot see which networks there are"
while read -r device _; do
  case $device in
    Iface | lo) ;;
    *) refuse "got a network behind $device, wanted none" ;;
  esac
done </proc/net/route
if [ -r /proc/net/ipv6_route ]; then
  while read -r line; do
    case $line in
      *[[:space:]]lo) ;;
      *) refuse "got a network behind ${line##*[[:space:]]}, wanted none" ;;
    esac
  done </proc/net/ipv6_route
fi

why="wanted one of python3, perl and node for the relay, got none"
for relay in "python3 -I -S relay.py" "perl relay.pl" "node relay.js"; do
  command -v "${relay%% *}" >/dev/null 2>&1 || continue
  # It answers when it has proved the way, or ends. Its other output says why not.
  # shellcheck disable=SC2086 - the words of the command
  said=$(cd "$folder" && $relay "$port" "$allowed" "$refused" </dev/null &)
  [ "$said" = go ] && exec "$@"
  why="the relay of ${relay%% *} could not prove the way out"
done
refuse "$why"
