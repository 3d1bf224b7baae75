# How a scenario is played.

defmodule Steps do
  @moduledoc "Plays one scenario."

  def run(%{tree: tree, steps: steps}) do
    Process.flag(:trap_exit, true)
    World.put(:watcher, spawn_link(Tree, :watch, [[]]))
    World.put(:before, MapSet.new([self(), World.get(:watcher) | Process.list()]))
    started = Words.result(Tree.start(tree))
    [section("start", [started]) | Enum.map(steps, &step/1)]
  end

  defp step(%{text: text} = step) do
    jobs = perform(step)
    settle(:rest)
    section(text, Enum.map(jobs, &(World.get({:answer, &1}) || "no answer")))
  end

  defp perform(%{kind: "die", name: name, reason: reason, by: by}) do
    if pid = victim(name), do: kill(pid, reason, by)
    []
  end

  defp perform(%{kind: "do", by: by} = wanted) do
    job = make_ref()
    World.put({:job, job}, ask(by, job, wanted))
    [job]
  end

  defp perform(%{kind: "meanwhile", items: items}) do
    Enum.flat_map(items, fn item ->
      jobs = perform(item)
      settle(:quiet)
      jobs
    end)
  end

  defp perform(%{kind: "between", die: die, calls: calls}) do
    World.put({:between, die.name}, Enum.map(calls, &{make_ref(), &1}))
    jobs = Enum.map(World.get({:between, die.name}), &elem(&1, 0))
    perform(die)
    jobs
  end

  # A registry is a supervisor: one of its partitions is what can be hit.
  defp victim(name) do
    case {World.get({:sup, name}), World.pid(name)} do
      {"names", sup} when sup != nil -> elem(hd(Supervisor.which_children(sup)), 1)
      {_, pid} -> pid
    end
  end

  defp kill(pid, "killed", _), do: Process.exit(pid, :kill)
  defp kill(pid, reason, "others"), do: Process.exit(pid, Words.to_reason(reason))
  defp kill(pid, reason, "itself"), do: send(pid, {:die, reason})

  defp ask("", job, wanted), do: spawn(fn -> World.put({:answer, job}, loudly(wanted)) end)

  defp ask(by, job, wanted) do
    pid = World.pid(by)
    if pid, do: send(pid, {:do, job, fn -> Operations.perform(wanted) end})
    pid
  end

  defp loudly(wanted) do
    Operations.perform(wanted)
  rescue
    error -> "raised #{inspect(error)}"
  end

  # Runs in a supervisor, when a restart of `name` has failed: what is asked for is in its mailbox
  # when this returns, before it is told to try again.
  def between(name) do
    for {job, wanted} <- World.take({:between, name}) || [] do
      {:message_queue_len, before} = Process.info(self(), :message_queue_len)
      World.put({:job, job}, ask("", job, wanted))
      grown(before)
    end
  end

  defp grown(before) do
    :erlang.yield()
    if {:message_queue_len, before} == Process.info(self(), :message_queue_len), do: grown(before)
  end

  # --- coming to rest

  # At `:rest` everybody idles in his main loop; when all is `:quiet`, some may wait for a timer or
  # for each other.
  defp settle(how), do: settle(how, look(how), 0)

  defp settle(how, before, tries) do
    if tries < 50, do: :erlang.yield(), else: Actor.nap(1)
    now = look(how)
    unless at_rest?(before, now) and (how == :quiet or answered?()), do: settle(how, now, tries + 1)
  end

  defp look(how) do
    known = World.get(:before)
    for pid <- Process.list(), pid not in known, do: {pid, idle(pid, how)}
  end

  # All must idle in two looks, and have done nothing between them but to be looked at, which costs
  # one reduction.
  defp at_rest?(before, now) do
    Enum.map(before, &elem(&1, 0)) == Enum.map(now, &elem(&1, 0)) and
      Enum.all?(Enum.zip(before, now), fn
        {{_, :dead}, {_, :dead}} -> true
        {{_, a}, {_, b}} -> is_integer(a) and is_integer(b) and b - a <= 1
      end)
  end

  defp idle(pid, how) do
    case Process.info(pid, [:status, :message_queue_len, :current_function, :reductions]) do
      nil ->
        :dead

      [status: :waiting, message_queue_len: left, current_function: where, reductions: done] ->
        if quiet?(how, where) or idles?(where, left), do: done, else: :busy

      _ ->
        :busy
    end
  end

  # Who waits for the code of a module will go on at once.
  defp quiet?(how, {module, _, _}), do: how == :quiet and module not in [:code_server, :code]

  # What tasks tell a child lies in its mailbox until it awaits them.
  defp idles?({Actor, function, _}, _), do: function in [:live, :wait]

  defp idles?({:gen_server, function, _}, left),
    do: left == 0 and function in [:loop, :loop_hibernate]

  defp idles?(where, left), do: left == 0 and where == {:erlang, :hibernate, 3}

  defp answered? do
    Enum.all?(World.all({{:job, :_}, :_}), fn {{:job, job}, pid} ->
      World.get({:answer, job}) != nil or pid == nil or not Process.alive?(pid)
    end)
  end

  # --- what is seen after a step

  defp section(text, results) do
    settle(:rest)
    seen = World.events()
    watcher = World.get(:watcher)
    send(watcher, {:ended, self()})
    ended = receive(do: ({:ended, found} -> found))

    tables =
      for {{:sup, name}, kind} <- World.all({{:sup, :_}, :_}),
          pid = World.pid(name),
          do: table(kind, name, pid)

    %{step: text, events: seen, results: results, ended: ended, tables: tables}
  end

  defp table("names", name, _) do
    found =
      Registry.select(String.to_atom(name), [{{:"$1", :"$2", :"$3"}, [], [{{:"$1", :"$2", :"$3"}}]}])

    "#{name}: #{found |> Enum.map(fn {k, p, v} -> "#{k}=#{World.name(p)}:#{v}" end) |> Enum.sort() |> Enum.join(" ")}"
  end

  defp table(kind, name, pid), do: "#{name}: #{which(kind, pid)} (#{count(kind, pid)})"

  # The children of a dynamic supervisor have no order, and none that is restarting has a name.
  def which(kind, sup) when kind in ["dynamic", "tasks"] do
    rows =
      for {_, pid, _, _} <- DynamicSupervisor.which_children(sup),
          do: if(is_pid(pid), do: World.name(pid), else: "#{pid}")

    Enum.join(Enum.sort(rows), " ")
  end

  def which(_, sup),
    do:
      Enum.map_join(Supervisor.which_children(sup), " ", fn {id, pid, _, _} ->
        "#{id}=#{state(pid)}"
      end)

  defp state(pid), do: if(is_pid(pid), do: "up", else: "#{pid}")

  def count(kind, sup) do
    counts =
      if kind in ["dynamic", "tasks"],
        do: DynamicSupervisor.count_children(sup),
        else: Supervisor.count_children(sup)

    Enum.map_join([:specs, :active, :supervisors, :workers], "/", &counts[&1])
  end

  # --- names

  @doc "The via tuple of a registry and a key, or of a partition supervisor and a key."
  def via(name) do
    [on, key] = String.split(name, "/", parts: 2)

    case World.get({:sup, on}) do
      "partitions" -> {:via, PartitionSupervisor, {String.to_atom(on), key(key)}}
      _ -> {:via, Registry, {String.to_atom(on), key}}
    end
  end

  defp key(text) do
    case Integer.parse(text) do
      {number, ""} -> number
      _ -> text
    end
  end

  def named(pid), do: pid |> Process.info(:registered_name) |> elem(1)
end
