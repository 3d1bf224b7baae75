# What stands in the tree of a scenario.

defmodule Actor do
  @moduledoc "Children and tasks that follow the script of a scenario."

  def nap(0), do: :ok
  def nap(milliseconds), do: receive(do: (:never -> :ok), after: (milliseconds -> :ok))

  # Called in the supervisor.
  def start(%{name: name, starts: starts} = child) do
    turn = World.count({:starts, name})
    how = if turn <= byte_size(starts), do: binary_part(starts, turn - 1, 1), else: "s"

    case how do
      "e" ->
        World.event(name, "fail")
        Steps.between(name)
        raise Nope

      _ ->
        started = :proc_lib.start_link(Actor, :begin, [self(), child, how])
        if how in ["f", "h"], do: Steps.between(name)
        started
    end
  end

  def begin(parent, %{name: name}, "f"), do: decline(parent, name, "fail", {:error, :nope})
  def begin(parent, %{name: name}, "h"), do: decline(parent, name, "fail", {:error, :shutdown})
  def begin(parent, %{name: name}, "i"), do: decline(parent, name, "ignore", :ignore)

  def begin(parent, %{name: name} = child, how) do
    Process.flag(:trap_exit, child.ends != "silent")

    case register(child.registers) do
      :ok ->
        World.call(self(), name)
        # for listeners of registries
        Process.register(self(), String.to_atom(name))
        World.event("start")
        :proc_lib.init_ack(parent, if(how == "v", do: {:ok, self(), :value}, else: {:ok, self()}))
        live(parent, child)

      {:error, pid} ->
        decline(parent, name, "fail", {:error, {:already_started, pid}})
    end
  end

  # As `:gen` registers a name, before anything else of the start.
  defp register(""), do: :ok

  defp register(name) do
    {:via, Registry, via} = Steps.via(name)

    if Registry.register_name(via, self()) == :yes,
      do: :ok,
      else: {:error, Registry.whereis_name(via)}
  end

  defp decline(parent, name, word, answer) do
    World.event(name, word)
    Process.unlink(parent)
    :proc_lib.init_ack(parent, answer)
  end

  def live(parent, child) do
    receive do
      {:die, word} ->
        die(word)

      {:do, job, work} ->
        World.put({:answer, job}, work.())

      {:EXIT, ^parent, _} ->
        asked(child)

      {:EXIT, pid, why} ->
        World.event("EXIT #{World.name(pid)} #{Words.reason(why)}")

      {:got, text} ->
        World.event("got #{text}")

      {:register, reg, key, pid, value} ->
        World.event("hears register #{reg} #{key} #{World.name(pid)} #{value}")

      {:unregister, reg, key, pid} ->
        World.event("hears unregister #{reg} #{key} #{World.name(pid)}")
    end

    live(parent, child)
  end

  defp die(word) do
    World.event("die #{word}")
    exit(Words.to_reason(word))
  end

  defp asked(%{ends: ends, takes: takes}) do
    World.event("asked")
    nap(takes)
    if ends == "refuses", do: receive(do: (:never -> :ok))
    World.event("end #{ends}")
    exit(Words.to_reason(ends))
  end

  # The function of a task.
  def work(job) do
    World.call(self(), job.name)
    Process.flag(:trap_exit, job.ends != "silent")
    World.event("start #{Enum.map_join(Process.get(:"$callers"), " ", &World.name/1)}")
    [sup | _] = Process.get(:"$ancestors")
    for inner <- job.inner, do: Task.await(Task.Supervisor.async(sup, Actor, :work, [inner]))
    nap(job.after)
    finish(job, if(job.does == "wait", do: wait(job), else: job.does))
  end

  defp finish(job, "return") do
    World.event("return")
    job.name
  end

  defp finish(_, "boom") do
    World.event("die boom")
    raise Boom
  end

  defp finish(_, word), do: die(word)

  def wait(job) do
    receive do
      {:die, word} -> word
      {:EXIT, _, _} -> asked(Map.put(job, :takes, 0))
    end
  end
end

defmodule Counter do
  @moduledoc "A server that says how often it was called, or the number it was given."
  use GenServer

  def start_link(name, number, options) do
    with {:ok, pid} <- GenServer.start_link(__MODULE__, {name, number}, options), do: {:ok, pid}
  end

  @impl true
  def init({name, number}) do
    World.call(self(), if(number < 0, do: name, else: "#{name}.#{number}"))
    World.event("start")
    {:ok, {number, 0}}
  end

  @impl true
  def handle_call(:call, _, {number, calls}),
    do: {:reply, if(number < 0, do: calls + 1, else: number), {number, calls + 1}}

  @impl true
  def handle_cast(text, state) do
    World.event("got #{text}")
    {:noreply, state}
  end
end

defmodule Tree do
  @moduledoc "Makes a tree of what a scenario lists."
  # seconds: no restart is ever forgotten
  @period 1000

  def spec(%{kind: "child"} = node),
    do: spec(node, %{restart: String.to_atom(node.restart), shutdown: limit(node.shutdown)})

  # names: "registry_is_a_worker"
  def spec(%{kind: kind} = node) when kind in ["server", "names"], do: spec(node, %{})
  def spec(node), do: spec(node, %{type: :supervisor})

  defp spec(node, more) do
    id = if node[:id] in [nil, ""], do: node.name, else: node.id
    Map.merge(%{id: id, start: {Tree, :start, [node]}}, more)
  end

  def limit(limit), do: if(is_binary(limit), do: String.to_atom(limit), else: limit)

  def start(%{kind: "child"} = node), do: Actor.start(node)
  def start(%{kind: "sup"} = node), do: Supervisor.start_link(Sup, node)
  def start(%{kind: "dynamic"} = node), do: DynamicSupervisor.start_link(Dyn, node)

  def start(%{kind: "server"} = node) do
    options = if node.registers == "", do: [], else: [name: Steps.via(node.registers)]
    Counter.start_link(node.name, -1, options)
  end

  def start(%{kind: "tasks"} = node), do: known(node, Task.Supervisor.start_link(options(node)))

  def start(%{kind: "names"} = node) do
    listeners = if node.listener == "", do: [], else: [String.to_atom(node.listener)]
    options = [name: String.to_atom(node.name), keys: String.to_atom(node.keys)]
    options = options ++ [partitions: node.partitions, listeners: listeners]

    with {:ok, pid} <- Registry.start_link(options) do
      World.call(pid, node.name)
      # its end is not watched: "registry_is_a_worker"
      World.put({:sup, node.name}, "names")
      {:ok, pid}
    end
  end

  def start(%{kind: "partitions", child: child} = node) do
    spec = %{spec(child) | start: {Tree, :start_partition, [child, node.name]}}

    options = [
      name: String.to_atom(node.name),
      child_spec: spec,
      max_seconds: @period,
      with_arguments: fn args, index -> args ++ [index] end
    ]

    options = if node.count < 0, do: options, else: [partitions: node.count] ++ options
    known(node, PartitionSupervisor.start_link(options))
  end

  def start_partition(%{kind: "server"}, name, index), do: Counter.start_link(name, index, [])
  def start_partition(child, name, index), do: start(%{child | name: "#{name}.#{index}"})

  defp known(%{name: name, kind: kind}, {:ok, pid}) do
    know(pid, name, kind)
    {:ok, pid}
  end

  defp known(_, other), do: other

  @doc "Remember a supervisor; watch it from its first moment, so that its real exit reason is known."
  def know(pid, name, kind) do
    World.call(pid, name)
    World.put({:sup, name}, kind)
    watcher = World.get(:watcher)
    send(watcher, {:watch, pid, name, self()})
    receive(do: ({:watched, ^watcher} -> :ok))
  end

  def options(node) do
    given = [max_restarts: node.max_restarts, max_children: Map.get(node, :max_children, -1)]
    [max_seconds: @period] ++ Enum.filter(given, fn {_, value} -> value >= 0 end)
  end

  @doc "Monitors every supervisor."
  def watch(sups) do
    receive do
      {:watch, pid, name, from} ->
        ref = Process.monitor(pid)
        send(from, {:watched, self()})
        watch([{pid, ref, name} | sups])

      {:ended, from} ->
        {alive, dead} = Enum.split_with(sups, fn {pid, _, _} -> Process.alive?(pid) end)
        send(from, {:ended, Enum.sort(for {_, ref, name} <- dead, do: verdict(ref, name))})
        watch(alive)
    end
  end

  defp verdict(ref, name),
    do: receive(do: ({:DOWN, ^ref, _, _, why} -> "#{name}=#{Words.reason(why)}"))
end

defmodule Sup do
  use Supervisor

  @impl true
  def init(node) do
    Tree.know(self(), node.name, "sup")

    Supervisor.init(
      Enum.map(node.children, &Tree.spec/1),
      [strategy: String.to_atom(node.strategy)] ++ Tree.options(node)
    )
  end
end

defmodule Dyn do
  use DynamicSupervisor

  @impl true
  def init(node) do
    Tree.know(self(), node.name, "dynamic")
    DynamicSupervisor.init([strategy: :one_for_one] ++ Tree.options(node))
  end
end
