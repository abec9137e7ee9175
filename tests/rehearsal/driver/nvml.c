// Simulated NVML: libnvidia-ml.so.1 for the cards of cuda.c.
//
// Card i has 400 + 100·i W and 1755 − 15·i MHz, and is limited by power. The power rises by 1 W every 0.1 s and is reset
// every second, so that successive readings differ.
//
// Source: NVML API reference (nvmlReturn_t, nvmlClockType_t, the throttle reasons, and the functions by their names).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int Result;
enum { SUCCESS = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, SM = 1 };
static char card[16];
static int number(void *handle) { return (int)((char *)handle - card); }
static int cards(void) { const char *given = getenv("REHEARSAL_CARDS"); return given ? atoi(given) : 1; }
static unsigned long long milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000ull + now.tv_nsec / 1000000;
}
static int watts(void *handle) { return 400 + 100 * number(handle) + (int)(milliseconds() / 100 % 10); }

Result nvmlInit_v2(void) { return SUCCESS; }
Result nvmlInitWithFlags(unsigned flags) { return SUCCESS; }
Result nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(Result error) { return "error of the simulated NVML"; }
Result nvmlSystemGetDriverVersion(char *version, unsigned size) { snprintf(version, size, "580.159.04"); return SUCCESS; }
Result nvmlDeviceGetCount_v2(unsigned *count) { *count = cards(); return SUCCESS; }
Result nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    *handle = card + index;
    return (int)index < cards() ? SUCCESS : NOT_FOUND;
}
Result nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **handle) {
    unsigned bus;
    if (sscanf(id, "0000:%x:00.0", &bus) != 1 || bus < 6 || (int)bus >= 6 + cards()) return NOT_FOUND;
    *handle = card + bus - 6;
    return SUCCESS;
}

Result nvmlDeviceGetClockInfo(void *h, int type, unsigned *mhz) { *mhz = type == SM ? 1755 - 15 * number(h) : 2619; return SUCCESS; }
Result nvmlDeviceGetMaxClockInfo(void *h, int type, unsigned *mhz) { *mhz = type == SM ? 1980 : 2619; return SUCCESS; }
Result nvmlDeviceGetPowerUsage(void *h, unsigned *milliwatts) { *milliwatts = 1000 * watts(h); return SUCCESS; }
Result nvmlDeviceGetEnforcedPowerLimit(void *h, unsigned *milliwatts) { *milliwatts = 700000; return SUCCESS; }
Result nvmlDeviceGetTotalEnergyConsumption(void *h, unsigned long long *millijoules) {
    *millijoules = milliseconds() * (400 + 100 * number(h));
    return SUCCESS;
}
Result nvmlDeviceGetTemperature(void *h, int sensor, unsigned *celsius) { *celsius = 47 + number(h); return SUCCESS; }
Result nvmlDeviceGetUtilizationRates(void *h, unsigned *percent) { percent[0] = 98, percent[1] = 40; return SUCCESS; }
Result nvmlDeviceGetCurrentClocksThrottleReasons(void *h, unsigned long long *reasons) { *reasons = 4; return SUCCESS; }
Result nvmlDeviceGetComputeRunningProcesses_v3(void *h, unsigned *count, void *processes) { *count = 0; return SUCCESS; }
Result nvmlDeviceGetEccMode(void *h, int *now, int *later) { *now = *later = 1; return SUCCESS; }
Result nvmlDeviceGetMigMode(void *h, unsigned *now, unsigned *later) { *now = *later = 0; return SUCCESS; }
Result nvmlDeviceGetPersistenceMode(void *h, int *mode) { *mode = 1; return SUCCESS; }
Result nvmlDeviceGetComputeMode(void *h, int *mode) { *mode = 0; return SUCCESS; }
Result nvmlDeviceGetMaxPcieLinkGeneration(void *h, unsigned *generation) { *generation = 5; return SUCCESS; }
Result nvmlDeviceGetMaxPcieLinkWidth(void *h, unsigned *lanes) { *lanes = 16; return SUCCESS; }
