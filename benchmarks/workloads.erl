%% The workloads in Erlang/OTP. Prints one line of JSON: microseconds of wall time for each thing.
-module(workloads).
-behaviour(supervisor).
-export([main/2, init/1, idle/0, fragile/1, brief/0, brief_later/0, level/1, leaf/1, echo/0]).
-export([handle_call/3, handle_cast/2]).

main(Workload, Size) ->
    logger:set_primary_config(level, none),
    process_flag(trap_exit, true),
    Line = try
        "{" ++ lists:join(", ", [io_lib:format("\"~s\": ~.4f", [K, float(V)])
                                 || {K, V} <- measure(Workload, Size)]) ++ "}"
    catch
        error:function_clause ->
            io_lib:format("{\"unsupported\": \"erlang: ~s was not written\"}", [Workload])
    end,
    io:format("~s~n", [Line]),
    erlang:halt(0).

%% --- children -----------------------------------------------------------------------------------

idle() -> {ok, spawn_link(fun() -> wait() end)}.

wait() -> receive never -> ok end.

%% Says that it runs, then crashes on demand, saying when.
fragile(Owner) ->
    {ok, spawn_link(fun() ->
        Owner ! {running, self(), now_ns()},
        receive crash -> Owner ! {crashed, now_ns()}, exit(boom) end
    end)}.

brief() -> {ok, spawn_link(fun() -> ok end)}.

brief_later() -> {ok, spawn_link(fun() -> receive leave -> ok end end)}.

leaf(Owner) -> fragile(Owner).

level(Arg) -> supervisor:start_link(?MODULE, Arg).

echo() -> gen_server:start_link(?MODULE, echo, []).

handle_call(Request, _From, State) -> {reply, Request, State}.

handle_cast({tell, Pid}, State) -> Pid ! told, {noreply, State};
handle_cast(_Request, State) -> {noreply, State}.

init(echo) -> {ok, none};
init({group, Strategy, Children}) ->
    {ok, {#{strategy => Strategy, intensity => 1000000000, period => 5}, Children}};
init({pool, Start}) ->
    Child = #{id => child, start => Start, restart => temporary},
    {ok, {#{strategy => simple_one_for_one}, [Child]}};
init({nested, 0, Owner}) ->
    {ok, {#{intensity => 0}, [#{id => leaf, start => {?MODULE, leaf, [Owner]}}]}};
init({nested, Depth, Owner}) ->
    Child = #{id => level, start => {?MODULE, level, [{nested, Depth - 1, Owner}]},
              type => supervisor},
    {ok, {#{intensity => 0}, [Child]}}.

%% --- workloads ----------------------------------------------------------------------------------

measure(start, N) ->
    Children = [spec(I, {?MODULE, idle, []}) || I <- lists:seq(1, N)],
    {Start, Sup} = timed(fun() -> group(one_for_one, Children) end),
    {Stop, _} = timed(fun() -> stop(Sup) end),
    [{"start.wall", Start / N}, {"stop.wall", Stop / N}];
measure(memory, N) ->
    Children = [spec(I, {?MODULE, idle, []}) || I <- lists:seq(1, N)],
    erlang:garbage_collect(),
    Before = erlang:memory(total),
    Sup = group(one_for_one, Children),
    erlang:garbage_collect(Sup),
    After = erlang:memory(total),
    [{"idle_bytes", (After - Before) / N}];
measure(storm, N) ->
    Count = min(1000, N),
    group(one_for_one, fragile_specs(Count)),
    Rounds = N div Count,
    {Time, _} = timed(fun() -> storm(Rounds, running(Count), Count) end),
    [{"restart.wall", Time / (Rounds * Count)}];
measure(latency, N) ->
    Idle = [spec(I, {?MODULE, idle, []}) || I <- lists:seq(1, 9)],
    group(one_for_one, Idle ++ [spec(crasher, {?MODULE, fragile, [self()]})]),
    [First] = running(1),
    Times = lists:sort(latencies(N, First)),
    [{"p50.wall", at(Times, N, 50)}, {"p99.wall", at(Times, N, 99)}];
measure(together, N) ->
    group(one_for_all, fragile_specs(N)),
    {Time, _} = timed(fun() -> together(10, running(N), N) end),
    [{"child.wall", Time / (10 * N)}];
measure(escalation, N) ->
    Times = [escalation(N) || _ <- lists:seq(1, 5)],
    [{"level.wall", lists:sum(Times) / (5 * N)}];
measure(call, N) ->
    Server = server(),
    calls(Server, 100),
    {One, _} = timed(fun() -> calls(Server, N) end),
    Each = N div 100,
    {Crowd, _} = timed(fun() ->
        Callers = [spawn_monitor(fun() -> calls(Server, Each) end) || _ <- lists:seq(1, 100)],
        [receive {'DOWN', Ref, process, _, _} -> ok end || {_, Ref} <- Callers]
    end),
    [{"call.wall", One / N}, {"crowd.wall", Crowd / (Each * 100)}];
measure(cast, N) ->
    Server = server(),
    {Time, _} = timed(fun() -> casts(Server, N div 1000) end),
    [{"cast.wall", Time / (N div 1000 * 1000)}];
measure(churn, N) ->
    {ok, Sup} = supervisor:start_link(?MODULE, {pool, {?MODULE, brief, []}}),
    {Time, _} = timed(fun() ->
        [supervisor:start_child(Sup, []) || _ <- lists:seq(1, N)],
        supervisor:count_children(Sup)
    end),
    [{"churn.wall", Time / N}];
measure(Pool, N) when Pool =:= pool; Pool =:= million ->
    {ok, Sup} = supervisor:start_link(?MODULE, {pool, {?MODULE, idle, []}}),
    {Start, _} = timed(fun() -> [supervisor:start_child(Sup, []) || _ <- lists:seq(1, N)] end),
    {Stop, _} = timed(fun() -> stop(Sup) end),
    case Pool of
        pool -> [{"pool_start.wall", Start / N}, {"pool_stop.wall", Stop / N}];
        million -> [{"start.wall", Start / N}, {"stop.wall", Stop / N}]
    end;
measure(servers, N) ->
    Children = [spec(I, {?MODULE, echo, []}) || I <- lists:seq(1, N)],
    {Time, _} = timed(fun() -> group(one_for_one, Children) end),
    [{"server.wall", Time / N}];
measure(server_memory, N) ->
    Children = [spec(I, {?MODULE, echo, []}) || I <- lists:seq(1, N)],
    erlang:garbage_collect(),
    Before = erlang:memory(total),
    Sup = group(one_for_one, Children),
    erlang:garbage_collect(Sup),
    [{"server_bytes", (erlang:memory(total) - Before) / N}];
measure(churn_memory, N) ->
    {ok, Sup} = supervisor:start_link(?MODULE, {pool, {?MODULE, brief, []}}),
    Left = fun(Count) ->
        [supervisor:start_child(Sup, []) || _ <- lists:seq(1, Count)],
        supervisor:count_children(Sup),
        [erlang:garbage_collect(P) || P <- [self(), Sup]],
        erlang:memory(total)
    end,
    Before = Left(min(1000, N)),
    [{"churn_bytes", float(round((Left(N) - Before) / N))}];
measure(signals, N) ->
    Watched = spawn(fun wait_to_crash/0),
    Refs = [monitor(process, Watched) || _ <- lists:seq(1, N)],
    {Monitors, _} = timed(fun() ->
        Watched ! crash,
        [receive {'DOWN', Ref, process, _, _} -> ok end || Ref <- Refs]
    end),
    First = spawn(fun wait_to_crash/0),
    Others = [spawn_monitor(fun() -> link(First), wait() end) || _ <- lists:seq(1, N)],
    timer:sleep(50),
    {Links, _} = timed(fun() ->
        First ! crash,
        [receive {'DOWN', Ref, process, _, _} -> ok end || {_, Ref} <- Others]
    end),
    [{"monitor.wall", Monitors / N}, {"link.wall", Links / N}];
measure(linearity, N) ->
    Rounds = [times(N div 10) || _ <- lists:seq(1, 5)],
    Many = times(N),
    [{Key ++ "_x10", Time / lists:nth(3, lists:sort([proplists:get_value(Key, R) || R <- Rounds]))}
     || {Key, Time} <- Many].

times(N) ->
    Crash = spec(crasher, {?MODULE, fragile, [self()]}),
    Children = [Crash | [spec(I, {?MODULE, idle, []}) || I <- lists:seq(2, N)]],
    {Start, Sup} = timed(fun() -> group(one_for_all, Children) end),
    [Pid] = running(1),
    {Restart, _} = timed(fun() ->
        Pid ! crash,
        receive {crashed, _} -> ok end,
        running(1),
        supervisor:count_children(Sup)
    end),
    {Stop, _} = timed(fun() -> stop(Sup) end),
    {ok, Pool} = supervisor:start_link(?MODULE, {pool, {?MODULE, brief_later, []}}),
    Pids = [element(2, supervisor:start_child(Pool, [])) || _ <- lists:seq(1, N)],
    {Leave, _} = timed(fun() ->
        [P ! leave || P <- Pids],
        empty(Pool)
    end),
    [{"start", Start}, {"restart", Restart}, {"stop", Stop}, {"leave", Leave}].

empty(Pool) ->
    case proplists:get_value(active, supervisor:count_children(Pool)) of
        0 -> ok;
        _ -> empty(Pool)
    end.

wait_to_crash() -> receive crash -> exit(boom) end.

%% --- what they are made of ----------------------------------------------------------------------

spec(Id, Start) -> #{id => Id, start => Start, shutdown => 5000}.

fragile_specs(N) -> [spec(I, {?MODULE, fragile, [self()]}) || I <- lists:seq(1, N)].

group(Strategy, Children) ->
    {ok, Sup} = supervisor:start_link(?MODULE, {group, Strategy, Children}),
    Sup.

stop(Sup) ->
    Ref = monitor(process, Sup),
    exit(Sup, shutdown),
    receive {'DOWN', Ref, process, Sup, _} -> ok end.

server() ->
    [{_, Pid, _, _}] = supervisor:which_children(group(one_for_one, [spec(e, {?MODULE, echo, []})])),
    Pid.

running(N) -> [receive {running, Pid, _} -> Pid end || _ <- lists:seq(1, N)].

storm(0, _, _) -> ok;
storm(Rounds, Pids, Count) ->
    [Pid ! crash || Pid <- Pids],
    [receive {crashed, _} -> ok end || _ <- Pids],
    storm(Rounds - 1, running(Count), Count).

together(0, _, _) -> ok;
together(Rounds, [First | _], Count) ->
    First ! crash,
    receive {crashed, _} -> ok end,
    together(Rounds - 1, running(Count), Count).

latencies(0, _) -> [];
latencies(N, Pid) ->
    Pid ! crash,
    Crashed = receive {crashed, When} -> When end,
    receive {running, Next, Began} -> [(Began - Crashed) / 1000 | latencies(N - 1, Next)] end.

escalation(Depth) ->
    {ok, Root} = supervisor:start_link(?MODULE, {nested, Depth - 1, self()}),
    Ref = monitor(process, Root),
    [Leaf] = running(1),
    Leaf ! crash,
    Crashed = receive {crashed, When} -> When end,
    receive {'DOWN', Ref, process, Root, _} -> (now_ns() - Crashed) / 1000 end.

calls(_, 0) -> ok;
calls(Server, N) -> gen_server:call(Server, N), calls(Server, N - 1).

casts(_, 0) -> ok;
casts(Server, Bursts) ->
    [gen_server:cast(Server, I) || I <- lists:seq(1, 999)],
    gen_server:cast(Server, {tell, self()}),
    receive told -> casts(Server, Bursts - 1) end.

at(Sorted, N, Percent) -> lists:nth(max(1, (N * Percent + 99) div 100), Sorted).

timed(Fun) ->
    Before = now_ns(),
    Result = Fun(),
    {(now_ns() - Before) / 1000, Result}.

now_ns() -> erlang:monotonic_time(nanosecond).
