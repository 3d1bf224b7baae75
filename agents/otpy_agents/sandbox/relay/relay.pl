# Inside a sandbox: hand 127.0.0.1:PORT on to the socket beside this file, once that is proved.
# As relay.py, for images without Python; perl is a part of every Debian.
use strict;
use warnings;
use IO::Socket::INET;
use IO::Socket::UNIX;

my ($port, $allowed, $refused) = @ARGV;
$SIG{$_} = 'IGNORE' for qw(HUP INT TERM PIPE);
my $listener = IO::Socket::INET->new(
    LocalAddr => '127.0.0.1', LocalPort => $port, Listen => 64, ReuseAddr => 1, Proto => 'tcp'
) or die "otpy: cannot listen: $!\n";
my $relay = fork // die "otpy: cannot fork: $!\n";
if (!$relay) {
    open STDOUT, '>', '/dev/null';    # the shell waits for the end of it
    hand_on();
}
close $listener;
eval { prove(); 1 } or do { kill 'KILL', $relay; die $@ };
syswrite STDOUT, "go\n";

sub hand_on {
    $SIG{CHLD} = 'IGNORE';
    while (1) {
        my $client = $listener->accept or next;
        my $child = fork // 1;    # the client of a fork that failed is dropped
        next if $child;
        close $listener;
        # Without a host nobody answers; the next one listens there again.
        my $proxy = IO::Socket::UNIX->new(Peer => 'proxy.sock') or exit;
        my $other_way = fork // exit;
        carry($other_way ? ($client, $proxy) : ($proxy, $client));
        exit;
    }
}

sub carry {
    my ($one, $other) = @_;
    while (my $size = sysread $one, my $data, 65536) {
        my $sent = 0;
        while ($sent < $size) {
            $sent += syswrite($other, $data, $size - $sent, $sent) // return;
        }
    }
    shutdown $other, 1;
}

sub prove {
    my ($status) = ask($refused);
    $status eq '403' or die "otpy: a port that is not allowed answered $status\n";
    IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $allowed, Timeout => 20)
        and die "otpy: the host was reached without the proxy\n";
    ($status, my $connection) = ask($allowed);
    $status eq '200' or die "otpy: a port that is allowed answered $status\n";
    syswrite $connection, "proved\n";
    my $answer = <$connection> // '';
    $answer eq "go\n" or die "otpy: the host does not want to go on\n";
}

sub ask {
    my $connection = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port)
        or die "otpy: the relay does not answer: $!\n";
    syswrite $connection, "CONNECT 127.0.0.1:$_[0] HTTP/1.1\r\n\r\n";
    my ($status) = (<$connection> // die "otpy: the proxy does not answer\n") =~ / (\d+)/;
    while (defined(my $line = <$connection>)) { last if $line eq "\r\n" }
    return ($status // 'nothing', $connection);
}
