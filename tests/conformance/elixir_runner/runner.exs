# Runs scenarios on Elixir's own supervisors, tasks and registries, and prints what happened.
#
# One scenario per line on standard input, as an Erlang term; one trace per line on standard output,
# as JSON. `elixir_scenario.py` says what a scenario is, `trace.py` what a trace is.
#
# - Events are written into a table under a strictly growing number by the process they happen in,
#   so that nobody's mailbox is involved. They are handed out sorted by who wrote them.
# - A step is over when everything is at rest: every process idles in its main loop, every call has
#   been answered. There is one scheduler, so that a look at all processes is a look at one moment.
#
# Start it with: elixir --erl "+S 1:1 +sbwt none" runner.exs

# Together, because they call each other.
{:ok, _, _} =
  ~w(world tree operations steps)
  |> Enum.map(&Path.join(__DIR__, "#{&1}.exs"))
  |> Kernel.ParallelCompiler.require()

defmodule Runner do
  # milliseconds for one scenario
  @limit 8000

  def main do
    :logger.set_primary_config(:level, :error)
    Enum.each(:logger.get_handler_ids(), &:logger.remove_handler/1)
    :ok = :logger.add_handler(World, World, %{})
    IO.puts(System.version())
    serve()
  end

  defp serve do
    case IO.gets("") do
      :eof ->
        :ok

      line ->
        {:ok, tokens, _} = :erl_scan.string(String.to_charlist(line))
        {:ok, scenario} = :erl_parse.parse_term(tokens)
        IO.puts(Words.json(play(scenario)))
        serve()
    end
  end

  defp play(scenario) do
    World.open()
    before = Process.list()
    {_, ref} = spawn_monitor(fn -> exit({:trace, Steps.run(scenario)}) end)

    trace =
      receive do
        {:DOWN, ^ref, _, _, {:trace, found}} -> found
        {:DOWN, ^ref, _, _, why} -> failed(why)
      after
        @limit -> failed(:hangs)
      end

    clear(before)
    World.close()
    trace
  end

  defp failed(why),
    do: [
      %{
        step: inspect(why, limit: :infinity),
        events: World.events(),
        results: [],
        ended: [],
        tables: []
      }
    ]

  defp clear(before) do
    left = Process.list() -- before
    refs = for pid <- left, do: Process.monitor(pid)
    Enum.each(left, &Process.exit(&1, :kill))
    for ref <- refs, do: receive(do: ({:DOWN, ^ref, _, _, _} -> :ok))
    if left != [], do: clear(before)
  end
end

Runner.main()
