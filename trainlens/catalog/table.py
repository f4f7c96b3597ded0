"""The table of metrics with their aliases, and what the words of an unknown name tell. Part of `catalog`."""

from __future__ import annotations

import re

from trainlens.model import Better, Metric, Role


def word_set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# ---- the table: a metric and its aliases, best first, as letters without split and unit ------------------------------

_TRAIN_LOSS = (
    "loss lmloss reducedloss lossstep steploss trl lossbatch batchloss iterloss nllloss "
    "lossglobalavgloss lossmetricsglobalavgloss globalavgloss losslm lossloss lossesloss "
    "avgloss averageloss lossavg lossmean meanloss runningloss ptlloss lossepoch epochloss "
    "epochlossepoch totalloss losstotal lossestotalloss losssmooth movingloss crossentropyloss "
    "lmlossvalue lossvalue lossmetricsloss metricsloss"
)
_EVAL_LOSS = _TRAIN_LOSS.replace(" trl", " tel") + " lossvsiterations reducedvalloss vloss"

TABLE: tuple[tuple[Metric, str], ...] = (
    (Metric("train/loss", "", "lower", "loss", "overview"), _TRAIN_LOSS),
    (Metric("eval/loss", "", "lower", "eval-loss", "overview"), _EVAL_LOSS),
    (Metric("train/perplexity", "", "lower", "perplexity", "overview"), "perplexity ppl lmlossppl lmppl"),
    (Metric("eval/perplexity", "", "lower", "perplexity", "overview"), "perplexity ppl lmlossppl lmppl"),
    (
        Metric("train/accuracy", "share", "higher", "score", "overview"),
        "accuracy acc tokenaccuracy tokenacc meantokenaccuracy acctop1 top1acc top1 epochaccuracy accstep accepoch",
    ),
    (
        Metric("eval/accuracy", "share", "higher", "score", "overview"),
        "accuracy acc tokenaccuracy tokenacc meantokenaccuracy acctop1 top1acc top1 epochaccuracy accstep accepoch",
    ),
    (
        Metric("grad_norm", "", "none", "grad-norm", "stability"),
        "gradnorm gnorm globalgradnorm gradientnorm globalgradientnorm gradnormtotal totalgradnorm "
        "totalnorm gradl2norm optimizergradnorm optimtotalgradnorm gradglobalnorm gradsnorm norm "
        "actorgradnorm policygradnorm gradnormglobal",
    ),
    (
        Metric("param_norm", "", "none", "other", "stability"),
        "paramnorm paramsnorm weightnorm parameternorm pnorm paramsl2norm paramnormtotal globalweightnorm",
    ),
    (
        Metric("lr", "", "none", "learning-rate", "overview"),
        "lr learningrate policylearningrate currentlr lrdefault optimizerlr optimizerlearningrate "
        "actorlr lradam lradamw lrsgd lrpg0 lrgroup0 xlr0 lrlr lr0 basiclr baselr "
        "learningratedefault",
    ),
    (
        Metric("loss_scale", "", "none", "loss-scale", "stability"),
        "lossscale gradscale lossscaling lossscaler amplossscale gradscaler currentlossscale",
    ),
    (
        Metric("skipped_steps", "", "none", "skipped", "stability"),
        "skipped skippedsteps skippediterations numberofskippediterations numskipped skippediters skip overflows",
    ),
    (
        Metric("clipped", "", "none", "clipped", "stability"),
        "clipped gradclipped clipfrac gradclip wasclipped isclipped",
    ),
    (
        Metric("step_time", "s", "lower", "step-time", "efficiency"),
        "steptime timemetricsendtoend iterationtime itertime elapsedtimeperiteration "
        "timeperiteration timeperstep steptiming steptimingin secondsperstep secperstep secstep "
        "sperstep sit sperit secondsperiteration timestep batchtime dt timingsstep timeiteration "
        "steptimesec iterationtimesec perfsteptime timeiter seconds stepduration latency e2elatency ms",
    ),
    (
        Metric("data_time", "s", "lower", "duration", "efficiency"),
        "datatime dataloadingtime dataloadtime dataloadertime batchgenerator batchgeneratortime "
        "rankdatatime dataloading datawait dataloaderwait timemetricsdataloading fetchtime",
    ),
    (
        Metric("tokens_per_second", "tokens/s", "higher", "throughput", "efficiency"),
        "tokenspersecond tokenspersec tokenssec tokenss toks tokspersec tps tgs "
        "tokenspergpupersecond tokenspergpupersecondtgs tokenspergpupersec tokenspersecondpergpu "
        "tokensglobalpersec throughputtokenspersecond perftokenspersecond throughputtps "
        "throughputtokenspersec tokenssdevice tokensperseconddevice wps throughputdevicetokens "
        "perfthroughput",
    ),
    (
        Metric("samples_per_second", "samples/s", "higher", "throughput", "efficiency"),
        "samplespersecond samplespersec samplessec sampless currsamplespersec cursamplespersec "
        "imagespersec imagespersecond imgspersec imgsec examplespersec examplespersecond "
        "sequencespersecond",
    ),
    (
        Metric("tflops", "TFLOP/s", "higher", "throughput", "efficiency"),
        "tflops throughputtflops throughputpergpu tflopspergpu tflopsgpu tflopsdevice tflopsmodel "
        "tflopshardware modeltflops tflopsgpumodel throughputpergputflopsgpu perftflops "
        "tflopsgpuhardware",
    ),
    (
        Metric("mfu", "share", "higher", "other", "efficiency"),
        "mfu bf16mfu perfmfu throughputmfu modelflopsutilization perfmfuactor",
    ),
    (
        Metric("gpu/utilization", "share", "higher", "utilization", "efficiency"),
        "gpuutilization gpuutil utilizationgpu gpugpu systemgpugpu systemgpu util gpusutil gpuusage "
        "systemgpuutilization systemgpuutilizationpercentage sysgpugpuutilization gpusm sm swanlabgpu "
        "gputl gpuuse gfxactivity usagegfxactivity grengineactive gract nvidiasmiutilizationgpuratio utilpct "
        "utilization",
    ),
    (
        Metric("gpu/memory_used", "bytes", "none", "memory", "resources"),
        "memoryused gpumemoryused gpusmemused gpusmemoryused memallocated memallocatedbytes "
        "memoryallocated allocated memused "
        "gpumemused maxmemallocated memmaxallocatedbytes memmaxallocated maxallocated maxmem gpumem "
        "gpumemory gpumemoryallocated peakmem peakmemory memorymaxactive memorymaxreserved "
        "memmaxreserved peakmemallocated systempeakmemallocated systemgpumemoryallocatedbytes "
        "systemgpumemoryused systemgpumemoryusage memory memoryreserved memreserved reserved "
        "maxmemoryallocated fb perfmaxmemoryallocated swanlabgpumemvalue gpuallocatedmemory "
        "usedgpumemory usedmemory fbusd fbused vramtotalusedmemoryb usedvram memusageusedvram vramused "
        "nvidiasmimemoryused",
    ),
    (
        Metric("gpu/memory_total", "bytes", "none", "memory", "resources"),
        "memorytotal gpumemorytotal memtotal gpumemtotal gpusmemtotal gpusmemorytotal gputotalmemory "
        "fbttl fbtotal totalvram memusagetotalvram vramtotalmemoryb vramtotal nvidiasmimemorytotal",
    ),
    (
        Metric("gpu/memory_share", "share", "none", "memory", "resources"),
        "memoryshare gpumemoryshare gpumemorypercent systemgpumemoryallocated "
        "gpumemoryutilization memoryusedpercent memorymaxactivepct memorymaxreservedpct "
        "systemgpumemorypercent systemgpumemoryusagepercentage memorypercent swanlabgpumem",
    ),
    (
        Metric("gpu/memory_bandwidth", "share", "none", "utilization", "resources"),
        "utilizationmemory memutil gpumemorybandwidth systemgpumemorybandwidth systemgpumemory dramactive "
        "swanlabgpumemtime drama mcutl memcopyutil umcactivity usageumcactivity",
    ),
    (
        Metric("gpu/power", "W", "none", "power", "resources"),
        "powerdraw gpupower power gpuspower gpupowerdraw systemgpupower systemgpupowerwatts "
        "systemgpupowerusagewatts pwr powerdrawinstant powerdrawaverage systemgpupowerusage swanlabgpupower "
        "powerusage averagegraphicspackagepower currentsocketgraphicspackagepower socketpower powersocketpower "
        "currentsocketpower powercurrentsocketpower averagesocketpower nvidiasmipowerdraw",
    ),
    (
        Metric("gpu/temperature", "°C", "none", "temperature", "resources"),
        "temperaturegpu gputemperature gputemp temp gpustemp gpustempc gpustemperature "
        "systemgputemp systemgputemperature gtemp tempc swanlabgputemp "
        "tmptr temperaturesensoredgec temperaturesensorjunctionc temperaturehotspot temperatureedge hotspot "
        "nvidiasmitemperaturegpu",
    ),
    (
        Metric("gpu/sm_clock", "MHz", "none", "other", "resources"),
        "smclock gpusmclock clockssm clockscurrentsm pclk smclk systemgpusmclock gpuclock clocksm gpuclk sclk "
        "sclkclock sclkclockspeed gfxclk gfxclock gfx0clk clocksgraphics clockscurrentgraphics clocksgr "
        "gpugraphicsclock graphicsclock clockgfx0clk nvidiasmiclockscurrentsm",
    ),
    (
        Metric("comm_share", "share", "lower", "other", "distributed"),
        "commshare communicationshare commfraction commratio",
    ),
    (Metric("profile/compute_share", "share", "higher", "other", "efficiency"), ""),
    (Metric("profile/memcpy_share", "share", "lower", "other", "efficiency"), ""),
    (Metric("profile/idle_share", "share", "lower", "other", "efficiency"), ""),
    (Metric("profile/data_share", "share", "lower", "other", "efficiency"), ""),
    (Metric("profile/host_share", "share", "lower", "other", "efficiency"), ""),
    (Metric("profile/comm_overlap", "share", "higher", "other", "distributed"), ""),
    (Metric("comm_time", "s", "lower", "duration", "distributed"), "commtime communicationtime allreducetime timecomm"),
    (
        Metric("update_ratio", "", "none", "update-ratio", "stability"),
        "updateratio weightupdateratio updatetoweightratio",
    ),
    (Metric("num_zeros", "", "none", "other", "stability"), "numzeros"),
    (Metric("epoch", "epochs", "none", "counter"), "epoch epochs epochnum currentepoch epochfloat"),
    (
        Metric("tokens", "tokens", "none", "counter"),
        "tokens totaltokens consumedtokens tokensseen numtokens trainedtokens numinputtokensseen "
        "ntokens tokensprocessed ntokensseen numtokensseen",
    ),
    (
        Metric("samples", "samples", "none", "counter"),
        "samples consumedsamples samplesseen samplescount totalsamples numsamples",
    ),
    (
        Metric("batch_size", "samples", "none", "counter"),
        "batchsize globalbatchsize gloablbatchsize gbs bsz globalbsz trainbatchsize",
    ),
    (
        Metric("sequence_length", "tokens", "none", "counter"),
        "sequencelength seqlen seqlength actualseqlen maxseqlen contextlength",
    ),
    (
        Metric("reward", "", "higher", "reward", "overview"),
        "reward rewards rewardmean rewardsmean meanreward criticrewardsmean rolloutepretmean "
        "rolloutreprewmean rolloutrewardmean rolloutreward rolloutreprew eprewmean rolloutep "
        "rolloutreprewardmean environmentcumulativereward episodereward epreturn episodereturn "
        "episoderewardmean averagerewardscore avgreward averagereward criticscoremean rolloutr "
        "rolloutepisodereward cumulativereward trainreward rolloutepr rolloutepisoderewardmean "
        "rolloutrewmean",
    ),
    (
        Metric("kl", "", "none", "other", "stability"),
        "kl klref approxkl meankl objectivekl actorkl actorkloss criticklmean actorppokl",
    ),
    (Metric("entropy", "", "none", "other", "stability"), "entropy policyentropy actorentropy meanentropy"),
    (
        Metric("response_length", "tokens", "none", "counter"),
        "responselength completionlength responselengthmean completionsmeanlength avgresponselen meanresponselength",
    ),
)

# Means since the start and the like: they move for reasons of their own and are never judged.
RUNNING_MEANS = word_set(
    "stepavg speediters speedsit speed runningavgsamplespersec avgsamplespersec hpmetric "
    "progress percentage avgsteptime averagesteptime meansteptime"
)
CLOCKS = word_set(
    "elapsed elapsedtime time wall runtime totaltime timetotaltime timeelapsed timetimeelapsed "
    "relativetime remainingtime eta etaseconds wallclock wallclocktime trainwall "
    "timesinceinception timetotals walltimes secondselapsed"
)
FAMILIES: tuple[tuple[re.Pattern[str], str, Role], ...] = (
    (re.compile(r"act(?:s|ivations?)?[/_.](?P<what>mean|std|rms|absmax|max|min|var)[/_.](?P<name>.+)", re.I),
     "act_{what}/{name}", "activation"),
    (re.compile(r"act(?:s|ivations?)?[/_.](?P<name>.+)[/_.](?P<what>mean|std|rms|absmax|max|min|var)$", re.I),
     "act_{what}/{name}", "activation"),
    (re.compile(r"(?:.*/)?experts?[/_.](?:load|tokens)[/_.]?(?P<name>[\w.]+)", re.I),
     "expert_load/{name}", "expert-load"),
    (re.compile(r"(?:.*[/.])?clocks_(?:throttle|event)_reasons[/._](?P<name>\w+)", re.I),
     "gpu/throttled/{name}", "throttle"),
    (re.compile(r"DCGM_FI_DEV_CLOCKS?_(?:THROTTLE|EVENTS?)_REASONS$", re.I), "gpu/throttled/active", "throttle"),
    (re.compile(r"(?:.*/)?update_(?:to_weight_)?ratio[/_.](?P<name>.+)", re.I), "update_ratio/{name}", "update-ratio"),
)  # fmt: skip

_LOSS = re.compile(r"loss(es)?$|^nll$|^bce$|损失|perte|verlust|pérdida|потер")
_LOWER = word_set("error err mse mae rmse mape wer cer ter fid bpb bpc eer")
_HIGHER = word_set(
    "acc aacc macc accuracy accuracies auc auroc f1 bleu rouge meteor score map iou miou ap ap50 ap75 "
    "map50 precision recall match psnr ssim elbo dice success ndcg mrr pass winrate top1 top5 "
    "spearman pearson mcc"
)
_SPREAD = word_set("std stderr min max var best smallest largest minimum maximum quantile clip chosen rejected margins")
_NOT_A_LOSS = word_set("weight scale ratio mask coef coefficient delta change threshold")
_POLICY = word_set("policy actor pg critic vf surrogate cri act value adv adversarial gan discriminator generator")
_ADVERSARIES = frozenset(("d", "g"))


def guess(tag: str, words: frozenset[str], held_out: bool, unit: tuple[str, float] | None) -> Metric:
    """What the words of a name tell of a metric that the catalogue does not know; it keeps its own name."""
    if tag.startswith("bench/"):
        lower = any("perplexity" in word or word in ("ppl", "bits", "bpb") for word in words)
        spread = not words.isdisjoint(_SPREAD)
        better: Better = "none" if spread else "lower" if lower else "higher"
        return Metric(tag, "", better, "other" if spread else "score", "capability")
    scale, unit_name = (unit[1], unit[0]) if unit else (1.0, "")
    if any(_LOSS.search(word) for word in words) or {"elbo", "neg"} <= words:
        return _loss(tag, words, held_out)
    if not words.isdisjoint(_SPREAD):
        return Metric(tag, unit_name, scale=scale)
    if {"grad", "norm"} <= words:
        return Metric(tag, "", "none", "grad-norm", "stability")
    if words & {"ppl", "perplexity"} and not words & {"code", "codebook"}:
        return Metric(tag, "", "lower", "perplexity", "overview")
    if "accuracies" in words:
        return Metric(tag, "", "higher", "score", "overview")
    if words & {"reward", "rewards", "return", "returns", "rew"}:
        return Metric(tag, "", "higher", "reward", "overview")
    if not words.isdisjoint(_LOWER):
        return Metric(tag, "", "lower", "score", "overview", scale)
    if not words.isdisjoint(_HIGHER):
        return Metric(tag, unit_name, "higher", "score", "overview", scale)
    return _machine(tag, words, held_out, unit_name, scale)


def _loss(tag: str, words: frozenset[str], held_out: bool) -> Metric:
    if words & _NOT_A_LOSS or words & _SPREAD:
        return Metric(tag)
    if not words.isdisjoint(_POLICY) or (len(words) == 2 and words & _ADVERSARIES):
        return Metric(tag, "", "none", "policy-loss", "overview")
    return Metric(tag, "", "lower", "eval-loss" if held_out else "loss", "overview")


def _machine(tag: str, words: frozenset[str], held_out: bool, unit: str, scale: float) -> Metric:
    """Speed, time and resources."""
    if words & {"fps", "ups", "throughput"} or ("per" in words and words & {"sec", "second"}):
        return (
            Metric(tag, "", "none", "duration") if held_out else Metric(tag, "", "higher", "throughput", "efficiency")
        )
    if unit == "s" or (not unit and any(word.endswith("time") for word in words)):
        return Metric(tag, "s", "none", "duration", "efficiency", scale)
    if unit == "bytes" or words & {"memory", "mem"}:
        return Metric(tag, unit, "none", "memory", "resources", scale)
    if words & {"lr", "lrs"} and not words & {"scale", "mul"}:
        return Metric("lr", "", "none", "learning-rate", "overview")  # `resolve` numbers the groups
    return Metric(tag, unit, scale=scale)
